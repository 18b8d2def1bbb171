// Package machine says who may join the mesh by a WorkloadGroup, and which WorkloadEntry stands for him.
//
// In: the group, what a machine's proxy says of itself, and what its connection proves. Out: the entry, or why there is none, in words for
// whoever runs the machine. It keeps nothing and asks nobody.
package machine
