// Package enforce keeps a node's kernel in agreement with what the node guard's plan says.
//
// In: a [Source] of views, and a [Kernel]. Out: the kernel holds the plan of the latest view. The first plan replaces the
// whole table, later ones change elements; where the kernel refuses a change, or somebody took the table away or
// altered it, the whole table is written again. Until the first view is complete nothing is written, so what an earlier
// process left stays in force; when the process ends, its table stays too, unless asked otherwise.
//
// Also out: metrics ([Guard.Describe]), readiness, and a log line for what was refused, one for each pod and destination
// within a while. It must not import client-go.
package enforce
