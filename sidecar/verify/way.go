package verify

import (
	"context"
	"fmt"
	"sync"
)

// Verdict is what became of an attempt.
type Verdict string

// The verdicts.
const (
	Closed  Verdict = "closed"
	Open    Verdict = "open"
	Skipped Verdict = "skipped" // not tried: it needs a target, or does not apply
	Unclear Verdict = "error"   // tried, and what was seen does not tell
)

// Taken says who in the same network namespace took a connection in the target's place; "" is nobody.
type Taken string

// Who may take one.
const (
	ByProxy    Taken = "proxy"    // the pod's Envoy
	ByResolver Taken = "resolver" // the agent's name server
	ByRules    Taken = "rules"    // the pod's packet filter, which refused it
)

// Result is one attempt.
type Result struct {
	Way     string  `json:"way"`
	Tried   string  `json:"tried"` // in words: "HTTP to 203.0.113.5:80"
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`            // what was seen, or why it was not tried
	Taken   Taken   `json:"taken,omitempty"` // who took it in the target's place
	URL     string  `json:"url,omitempty"`   // the destination, as "sallyport explain" reads it
	Needs   string  `json:"needs,omitempty"` // of one that was skipped: the flag that would have it tried
}

// conclude gives the result a verdict.
func (r Result) conclude(v Verdict, format string, args ...any) Result {
	r.Verdict, r.Seen = v, fmt.Sprintf(format, args...)
	return r
}

// Way is a way out.
type Way struct {
	Name  string
	About string // what is tried
	Needs string // the flags that give it a target; "" where it needs none
	// Direct says that no forward proxy carries this.
	Direct bool

	try func(context.Context, *Env) []Result
}

// All are the ways, in the order of a report.
var All = []Way{
	nameWay, addressWay, ipv6Way, portWay, frontingWay, gatewayWay, podWay, metadataWay,
	dnsUDPWay, dnsTCPWay, dotWay, dohWay, tunnelWay, quicWay, udpWay, icmpWay,
}

// together makes attempts at the same time; the results are in their order.
func together(tries ...func() Result) []Result {
	return each(tries, func(try func() Result) []Result { return []Result{try()} })
}

// each tries one thing with each target, all at the same time. The results are in the targets' order.
func each[T any](targets []T, try func(T) []Result) []Result {
	results := make([][]Result, len(targets))
	var all sync.WaitGroup
	for i, target := range targets {
		all.Go(func() { results[i] = try(target) })
	}
	all.Wait()
	var flat []Result
	for _, r := range results {
		flat = append(flat, r...)
	}
	return flat
}
