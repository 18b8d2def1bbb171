// Package nodeguard says what a node lets its pods send to the world: what NetworkPolicies ask for, held by the node
// itself, whatever network plugin it has.
//
// In: a [View] of the cluster (the node's own pods, namespaces, nodes, Services' addresses) and [Options]. [Build] turns
// them into a [Plan]: the one nftables table with its sets and rules. Out: [Plan.Text] prints it as nft would; [Diff] gives
// the elements that change between two plans, for one transaction. Same view, same plan, in any order.
//
// The pod is told by its address and not by its user or processes, so user 1337 is guarded like every other, and pods
// without a sidecar are too. What cannot be told apart from the node (pods of its own network) is not guarded.
//
// The package is pure. It must not import anything of the mesh, nor client-go, nor touch the kernel: packages watch, kernel
// and enforce do that.
package nodeguard
