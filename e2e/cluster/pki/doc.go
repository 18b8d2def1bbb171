// Package pki issues the certificates of a test cluster's control plane.
//
// In: who a certificate is for. Out: PEM files and kubeconfigs. Everything is ECDSA P-256 and valid for a week: a test cluster does
// not live longer. It imports nothing of this module.
package pki
