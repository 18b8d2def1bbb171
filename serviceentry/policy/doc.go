// Package policy decides, for one workload and one destination, what happens and which object says so.
//
// In: a registry snapshot, who asks, what for. Out: a Verdict with its reasons. Decide is one pure function, and the
// programmed Envoys agree with it: a differential test against real ones holds the two together.
//
// It imports the registry, and what reads host names, only.
package policy
