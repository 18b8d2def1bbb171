// Package egressgateway renders the exits: an egress gateway's pods, and the forward proxy of `sallyport up`.
//
// In: a host as the model sees it (resolve.ExitHost), or what the base depends on (Inputs). Out: the host's rows and clusters; the listener that faces the mesh, its
// table, and the listeners behind.
package egressgateway
