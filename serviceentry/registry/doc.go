// Package registry holds what may leave the mesh, as the control plane last understood it.
//
// In: batches of object changes from a source. Out: an immutable Snapshot, and Changed, the set of hosts (and
// wider things) that the batch touched, so that those who come after recompute only that.
//
// Snapshots share structure: applying one change to 10,000 hosts copies a path of a tree, not the tree. A
// Registry has one writer; its snapshots may be read by anyone for as long as they like.
package registry
