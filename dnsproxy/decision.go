package dnsproxy

import (
	"net/netip"
	"time"
)

// Question is what a client asked.
type Question struct {
	View   string
	Client netip.AddrPort // as the question says
	Asker  *Asker         // whose it is, where that is known; not to be changed
	Name   string         // lower case, without the last dot; "" is the root
	Type   uint16         // as in RFC 1035: 1 is A, 28 is AAAA
	// Known tells that the name table has the name, but no addresses for it.
	Known bool
}

// Action is what a policy wants.
type Action int

// The actions. NXDomain lets clients with search domains go on to their next guess; Refused makes them give up.
const (
	Forward Action = iota
	NXDomain
	Refused
)

// Source says where an answer came from.
type Source uint8

// The sources.
const (
	FromTable    Source = iota // the name table
	FromCache                  // a fresh answer from before
	FromStale                  // an expired one, because no upstream answered in time
	FromUpstream               // asked for this question, maybe for others at the same time
	FromPolicy                 // the policy refused the name
	FromLimit                  // the client asks too much
	FromFailure                // nobody could answer
	FromProtocol               // the question itself is malformed or unsupported
	sourceCount
)

// String is the source's name in metrics.
func (s Source) String() string {
	return [...]string{"table", "cache", "stale", "upstream", "policy", "limited", "failure", "protocol"}[s]
}

// Verdict says whether a question was answered as it is, in the audit log's words.
type Verdict string

// The verdicts. What failed was allowed.
const (
	Allowed Verdict = "allowed"
	Denied  Verdict = "denied" // by the policy, a limit, or because View.Refuse has left no address
)

// Decision is how a question was answered.
type Decision struct {
	Question
	Verdict  Verdict
	Reason   string // why it was denied
	Time     time.Time
	Took     time.Duration
	Source   Source
	Rcode    int          // RFC 6895: 0 NOERROR, 2 SERVFAIL, 3 NXDOMAIN, 5 REFUSED
	Answers  []netip.Addr // the addresses that were answered
	Filtered bool         // View.Refuse took addresses out
	Err      error        // for FromFailure: what the upstreams did
}

// judge fills in the verdict from the rest.
func (d *Decision) judge() {
	d.Verdict = Allowed
	switch {
	case d.Source == FromPolicy || d.Source == FromLimit:
		d.Verdict = Denied
	case d.Filtered && len(d.Answers) == 0:
		d.Verdict, d.Reason = Denied, reasonFiltered
	}
}

// Refusal is an answer out of which View.Refuse took addresses.
type Refusal struct {
	View      string
	Host      string // the name asked for, lower case, without the last dot
	Domain    string // the part of it that somebody has registered, under which he may make as many names as he likes
	Addresses []netip.Addr
	Upstream  netip.AddrPort // who sent them
}
