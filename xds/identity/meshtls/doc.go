// Package meshtls is mutual TLS between parts of the control plane that are in different pods: each shows a certificate
// of the mesh, and is taken for the SPIFFE id in it and for nothing else.
//
// In: a Source of the own certificate and the mesh's roots, and for clients whom to expect. Out: TLS configurations
// that follow renewals and rotations of the root. It imports identity.
package meshtls
