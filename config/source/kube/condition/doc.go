// Package condition is the part of an object's status that Sallyport writes: its conditions, and a ServiceEntry's
// addresses, in the form of Istio's API (istio.io/api meta/v1alpha1 IstioStatus).
//
// The source reads it to know what the server holds, and the writer of statuses to know what it should hold; they
// compare digests. It imports nothing of this module.
package condition
