// Package inbound renders what a sidecar lets in: from serviceentry/resolve's Inbound, the listener that the pod's incoming
// connections are redirected to, and the clusters of its app.
package inbound
