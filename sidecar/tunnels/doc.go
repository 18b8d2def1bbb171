// Package tunnels ends open connections of an egress gateway that may not be there any more (docs/adr/0057-open-connections-end.md).
//
// In: the tunnels that Envoy's access log says have begun and ended, and which resources Envoy has taken since. Of those that a change, or
// a rule's end, may be about, the gateway's own table is asked again what it was asked when they began (Asker). Out: single TCP
// connections that are reset (Ender), and, for the record of each, why.
//
// Table holds what is open, bounded; plan.go says what is asked about when, and has no goroutine; Run asks.
package tunnels
