// Package kubetoken authenticates workloads by the service account tokens that Kubernetes projects into their pods.
//
// In: a call's bearer token; the API's TokenReview. Out: the service account as an identity.ID, and the pod that the
// token is bound to. The API is asked about a token once in 50 seconds, whoever presents it and however often; when the API
// is away the answer is neither yes nor no, and agents try again. A pod's deletion, which ends its tokens, is noticed
// within a minute.
//
// Few are asked at a time, and addresses wait in turn; who has tokens asked about that nobody knows gets a pace. So strangers
// hold up their own address only.
//
// It imports identity, netcap and client-go's typed client; it runs no goroutine that outlives its call by more than a timeout.
package kubetoken
