// Package token is the vouching for workloads where there is no Kubernetes to do it: tokens in the form of a
// projected service account token, signed by the controller's own key.
//
// In: a key file, a namespace and a service account; or a token that a call carries. Out: a JWT; or the
// identity.ID that it proves. It imports identity and pemfile, and knows nothing of certificates.
package token
