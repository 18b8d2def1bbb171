// Package ca is the mesh's certificate authority.
//
// In: a Store of the CA's key and roots — the controller's data folder, a folder in the layout of Istio's `cacerts`, or
// what another package brings, such as a Secret; a CSR and the identity that its sender was authenticated as. Out:
// certificates for that identity and for nothing else, and the trust bundle. The data folder holds:
//
//	ca/ca-key.pem, ca/ca-cert.pem       the self-signed root, made once
//	ca/roots/*.pem                      more roots to trust (optional)
//	ca/next-*.pem, ca/rotation.json     while a root is rotated
//	root-cert.pem                       the trust bundle: what agents are given as --ca-root
//
// A root is rotated without an outage in three steps, each after the one before has reached every agent: trust the
// next root; sign with it; trust the old one no more. Rotation takes them, on any Store, and refuses one that comes too
// early. The same can be done by hand: add the next root to ca/roots (or to root-cert.pem of cacerts); replace
// ca-key.pem and ca-cert.pem and keep the old certificate in ca/roots; remove it there.
//
// It imports identity and pemfile, and knows nothing of gRPC or Kubernetes.
package ca
