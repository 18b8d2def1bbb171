// Package ca is the mesh's certificate authority.
//
// In: the controller's data folder, or a folder in the layout of Istio's `cacerts` secret; a CSR and the identity
// that its sender was authenticated as. Out: certificates for that identity and for nothing else, and the trust
// bundle. The data folder holds:
//
//	ca/ca-key.pem, ca/ca-cert.pem   the self-signed root, made once
//	ca/roots/*.pem                  more roots to trust (optional)
//	root-cert.pem                   the trust bundle: what agents are given as --ca-root
//
// A root is rotated without an outage in three steps, each after the one before has reached every agent (half a
// certificate's lifetime): trust the next root (add it to ca/roots, or to root-cert.pem of cacerts); sign with it
// (replace ca-key.pem and ca-cert.pem, keep the old certificate as an additional root); trust the old one no more.
//
// It imports identity and pemfile, and knows nothing of gRPC.
package ca
