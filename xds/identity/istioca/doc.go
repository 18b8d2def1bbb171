// Package istioca serves istio.v1.auth.IstioCertificateService, by which agents (ours, Istio's) get their
// workload's certificate.
//
// In: a CSR in a call that the identity.Guard authenticated. Out: a certificate chain for the caller's identity.
// It imports identity and ca; the rest of Istio's agent protocol is not its subject.
package istioca
