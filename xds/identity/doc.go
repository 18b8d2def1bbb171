// Package identity says who calls: SPIFFE ids, and the authentication of every gRPC call that reaches the
// controller's secure port.
//
// In: a call's bearer token or verified client certificate. Out: an ID in the call's context, and the pod that a token is
// bound to; or an Unauthenticated error that says what to mend. The packages below it issue what is checked here: token
// signs and verifies the controller's own tokens, ca is the mesh CA, servertls the server's side of the TLS connection, and
// istioca serves Istio's certificate service. In Kubernetes kubetoken has the API vouch for workloads, workload binds a
// proxy to its pod, kubeca keeps the CA in Secrets, and kubetrust brings the trust bundle to pods and webhooks.
//
// It imports nothing of this module and knows nothing of xDS.
package identity
