// Package kernel runs the programs and netlink calls that put a redirect plan into the network namespace of the calling thread.
//
// In: families, rules as text, addresses and routes from package redirect. Out: the kernel holds them. It decides nothing: what to
// write is package redirect's, which this package imports for its types only.
package kernel
