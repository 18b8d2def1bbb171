// Package policy decides, for one workload and one destination, what happens and which object says so.
//
// In: a registry snapshot, who asks, what for. Out: a Verdict with its reasons. Decide walks the model (serviceentry/resolve) with
// one request, as the programmed Envoys do, and knows nothing of its own about what happens; a differential test against real
// ones holds the two together.
package policy
