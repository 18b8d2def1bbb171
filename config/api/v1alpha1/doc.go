// Package v1alpha1 is the API of our own: objects of the group egress.sallyport.io, for what Istio has no word for.
//
// In: what users write below spec, as JSON. Out: its message.
package v1alpha1

// Group is the API's group, and Version its version.
const (
	Group   = "egress.sallyport.io"
	Version = "v1alpha1"
)
