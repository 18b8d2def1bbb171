// Package kubeca keeps the mesh CA in Kubernetes Secrets.
//
// In: the control plane's namespace. Out: a ca.Store. The Secret `cacerts`, in Istio's layout or as cert-manager writes
// one, wins when it is there and is never changed; otherwise the CA is in `istio-ca-secret`, which is made once however many
// replicas start at the same time. Replicas follow changes by ca.CA.Watch.
//
// It needs the verbs get and update on these two names, and create on secrets; it lists and watches none. It imports ca and
// client-go's typed client.
package kubeca
