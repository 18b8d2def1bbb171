package main

import (
	"slices"
	"time"
)

// traffic is one way to put a path under load.
type traffic struct {
	Name string
	Way  way
	TLS  bool // the client speaks TLS, through to the server or to the ingress gateway; otherwise plain HTTP
	Keep bool // connections are kept; otherwise each request has a new one
}

var loads = []traffic{
	{"TLS, kept connections", egress, true, true},
	{"TLS, new connections", egress, true, false},
	{"HTTP, kept connections", egress, false, true},
	{"HTTP, new connections", egress, false, false},
	{"pod to pod, HTTP, kept connections", mesh, false, true},
	{"pod to pod, HTTP, new connections", mesh, false, false},
	{"ingress, TLS, kept connections", ingress, true, true},
	{"ingress, TLS, new connections", ingress, true, false},
	{"ingress, HTTP, kept connections", ingress, false, true},
	{"ingress, HTTP, new connections", ingress, false, false},
}

func loadNames() (out []string) {
	for _, l := range loads {
		out = append(out, l.Name)
	}
	return out
}

// order tells a client what to do: a closed loop of Clients, each of which has one request under way.
type order struct {
	traffic
	Host     string
	Port     int
	Addr     string // where to connect; "" for what the pod's DNS says
	Leaf     []byte // the server's certificate, DER
	Clients  int
	Warm     time.Duration // before anything counts
	Duration time.Duration // of what counts
	Requests int           // ends a round early; 0 for none
}

// tally is what a client measured.
type tally struct {
	Requests int
	Failures int
	First    string // the first failure
	Took     time.Duration
	Busy     time.Duration // processor time of the client
	P50, P99 time.Duration
}

func (t tally) rate() float64 { return float64(t.Requests) / t.Took.Seconds() }

// percentile of sorted latencies: the smallest that is not exceeded by a fraction p of them.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// add takes one of the loop's clients into account.
func (t *tally) add(one *caller) {
	t.Failures += one.failures
	if t.First == "" && one.first != nil {
		t.First = one.first.Error()
	}
}

func summary(callers []*caller, took time.Duration) tally {
	t := tally{Took: took}
	var all []time.Duration
	for _, c := range callers {
		t.add(c)
		all = append(all, c.latencies...)
	}
	slices.Sort(all)
	t.Requests, t.P50, t.P99 = len(all), percentile(all, 0.5), percentile(all, 0.99)
	return t
}
