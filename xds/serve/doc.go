// Package serve brings views to proxies over xDS.
//
// In: snapshots with what changed (Publish), and streams, which ask for resources: delta streams of our own, and go-control-plane's of the state of the world. Out: responses
// whose bytes are shared by all streams of a class.
//
// A stream's state is small: which view it was sent last, for each type. What it gets next is the difference, so an
// equal hash is never sent again, and a client that does not acknowledge gets nothing more and holds nothing. The one thing that
// waits for a client's word about others is names (holds), and rows of nodes that lead to waypoints (fronts).
package serve
