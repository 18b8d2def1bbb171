package seen

import (
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Log is what was seen.
type Log struct {
	Since, Until time.Time
	// Oldest is when the log's oldest record came in, whatever the window; the zero time of an empty log.
	Oldest time.Time
	Flows  []*Flow // in the order of their workloads, hosts and ports
	// Rules are those of EgressPolicies that the log names as having allowed something: of two levels' the one that was asked last.
	Rules map[Rule]bool
	// Gaps are the records that are missing in the window. Nameless are those of nobody who is known, Claimed those in which a gateway
	// that is not believed about others names its clients: neither are in Flows.
	Gaps, Nameless, Claimed uint64
	// Cut are the namespaces that have more flows than their share of MaxFlows: those with the fewest records are left out.
	Cut map[string]bool
}

// Rule names a rule of an EgressPolicy.
type Rule struct{ Namespace, Policy, Name string }

// Flow is what one sort of workloads sent to one host and port, and what was decided about it.
type Flow struct {
	Namespace, Account string
	Labels             string // as the record has them: "key=value,…"
	Host               string
	Port               uint32 // 0 of names that DNS refused: nobody connected
	Protocol           string // http, tls, tcp, dns
	Verdict            record.Verdict
	Way                string // record.PathGateway and so on
	Evidence
	// Destinations are addresses that were connected to, or tried, in order; at most MaxDestinations.
	Destinations []string
	// Requests are the paths of requests, by their methods, of protocol http. The method "" is one that no record has a name for.
	Requests map[string]*Paths
}

// Evidence says when and how much.
type Evidence struct {
	First, Last time.Time
	// Days are those with a record, in order, as days since 1970 in UTC.
	Days []int64
	// Replicas are names of pods, in order; at most MaxReplicas.
	Replicas []string
	// AtOnce is how many pods there were at least, where their names were not read.
	AtOnce  uint32
	Records uint64
	// BytesSent go to the workload, BytesReceived come from it.
	BytesSent, BytesReceived uint64
}

// The bounds of what is read.
const (
	MaxFlows        = 100_000
	MaxReplicas     = 256
	MaxDestinations = 64
)

// Add takes other evidence into this one.
func (e *Evidence) Add(o *Evidence) {
	if e.Records == 0 || o.First.Before(e.First) {
		e.First = o.First
	}
	if o.Last.After(e.Last) {
		e.Last = o.Last
	}
	e.Days = union(e.Days, o.Days)
	e.Replicas = union(e.Replicas, o.Replicas)
	e.Replicas = e.Replicas[:min(len(e.Replicas), MaxReplicas)]
	e.AtOnce = max(e.AtOnce, o.AtOnce)
	e.Records = sum(e.Records, o.Records)
	e.BytesSent = sum(e.BytesSent, o.BytesSent)
	e.BytesReceived = sum(e.BytesReceived, o.BytesReceived)
}

// Pods is how many there were at least.
func (e *Evidence) Pods() int { return max(len(e.Replicas), int(e.AtOnce)) }

// sum stays at the largest number: what others write shall not come round to a small one.
func sum(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

func union[T int64 | string](a, b []T) []T {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// LabelMap reads the labels.
func (f *Flow) LabelMap() map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(f.Labels, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			out[k] = v
		}
	}
	return out
}

// AppLabels are the labels that name an application, the first that is there.
var AppLabels = []string{"app", "app.kubernetes.io/name"}

// App gives the label by which the flow's workloads are called an application, and its value; "" without one.
func (f *Flow) App() (label, name string) {
	labels := f.LabelMap()
	for _, l := range AppLabels {
		if v := labels[l]; v != "" {
			return l, v
		}
	}
	return "", ""
}
