// Package kubetrust brings the mesh's trust bundle to where Kubernetes needs it: a ConfigMap in every namespace, which
// pods mount, and the caBundle of the control plane's webhooks.
//
// In: the namespaces, the webhook configurations, and the bundle (PEM). Out: the API's objects made equal to that; only
// what differs is written, and no faster than a limit. It is for one replica at a time: the caller is the leader.
//
// It needs list, get, create, update and delete on ConfigMaps (get, list, update and delete of the one name), and get and
// update on the webhook configurations. It imports client-go's typed client and nothing of this module.
package kubetrust
