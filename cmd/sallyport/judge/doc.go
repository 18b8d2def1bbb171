// Package judge says what the results of tried ways out (sidecar/verify) mean: closed by which object, rule or component, or
// open, and what to write to close it.
//
// In: a report of package verify, and what is known of where it was made: what the control plane would decide, the pod as it
// was injected, what else holds the pod. Out: findings. Where nothing is known a finding says what was seen, and no more. A
// result that is closed only because nobody answered is not taken for closed where the mesh would have let it pass and
// nothing else holds the pod: the target may be down.
//
// All of it is pure functions. The package must not import the rest of cmd.
package judge
