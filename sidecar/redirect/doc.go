// Package redirect catches a pod's traffic for the proxy beside it: what istio-init does.
//
// In: [Settings], the flags and environment variables of istio-init as strings. They become [Options] (checked, typed),
// and [Build] turns those into a [Plan]: the chains and rules for each address family, in the very words that iptables-save
// prints, so that a plan and a kernel can be compared as text. Out: [Apply] and [Clean] make a [Kernel] agree with a
// plan, and [Plan.Text] prints it.
//
// Only rules in chains of ours and the jumps into them are ever written or removed. A table changes in one transaction
// (iptables-restore --noflush), the one with the redirects last, and a plan that is already in place is not written again.
//
// What a redirect cannot catch: protocols other than TCP and DNS over UDP (QUIC can be refused with Options.BlockQUIC), raw
// sockets, and processes with the proxy's own user or group id. Those need a NetworkPolicy and a pod security rule.
//
// The package must not import anything of the mesh (registry, xds) nor run programs: package kernel does that.
package redirect
