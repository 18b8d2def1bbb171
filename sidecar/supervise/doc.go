// Package supervise runs Envoy as a child: starts it, starts it again when it dies, drains it when the agent ends.
//
// In: the binary with its arguments, the address of its admin interface; out: a child that is in its own process
// group and that the kernel kills if the agent dies, its log lines, and the reasons of its ends.
//
// It must not know what Envoy is configured to do.
package supervise
