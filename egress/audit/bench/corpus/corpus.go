// Package corpus makes records like those of a mesh, by a seed: what an audit server is measured by, and what a record's bytes are counted by.
package corpus

import (
	"fmt"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// The mesh of the log: a workload goes to some hosts, some of its paths more than others, and one request in twenty is denied.
const (
	workloads = 400
	hosts     = 2_000
	hostsEach = 8  // of a workload
	paths     = 40 // of a host
)

// Source makes records; the same ones each time, but for their times.
type Source struct{ random uint64 }

// New makes a source of its own by a number that is not 0.
func New(seed uint64) *Source { return &Source{seed} }

func (s *Source) next(n int) int {
	s.random ^= s.random << 13
	s.random ^= s.random >> 7
	s.random ^= s.random << 17
	return int(s.random>>1) % n
}

// few prefers small numbers: half of all are below a tenth.
func (s *Source) few(n int) int {
	if s.next(2) == 0 {
		return s.next(max(n/10, 1))
	}
	return s.next(n)
}

// Record is the next one, of a moment. It has no Proxy, Epoch and Seq.
func (s *Source) Record(at time.Time) record.Record {
	w := s.few(workloads)
	h := (w*31 + s.few(hostsEach)*257) % hosts
	namespace, account := fmt.Sprintf("team-%d", w%40), fmt.Sprintf("service-%d", w)
	host := fmt.Sprintf("api-%d.vendor-%d.example", h, h%300)
	r := record.Record{
		Time: at, Class: record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: record.ReporterGateway, Direction: record.Outbound,
		Workload: record.Workload{
			Principal: "spiffe://cluster.local/ns/" + namespace + "/sa/" + account, Namespace: namespace, ServiceAccount: account,
			Name: fmt.Sprintf("%s-5d8f-%d", account, s.next(3)), Labels: "app=" + account + ",version=v" + fmt.Sprint(w%3),
		},
		Source: fmt.Sprintf("10.1.%d.%d:%d", w/250, w%250, 20_000+s.next(40_000)), Host: host, Port: 443, Authority: host,
		Destination: fmt.Sprintf("203.0.113.%d:443", h%250), Protocol: "http", Method: []string{"GET", "GET", "GET", "POST"}[s.next(4)],
		URLPath: fmt.Sprintf("/v1/items/%d", s.few(paths)), Status: 200, Cluster: "outbound|443||" + host, Route: "https.443." + host,
		DecidedBy: record.Object{Kind: "ServiceEntry", Namespace: "egress", Name: fmt.Sprintf("vendor-%d", h%300), Revision: "5f1d8a3c"},
		Reason:    "registered by ServiceEntry egress/vendor", BytesSent: uint64(500 + s.next(20_000)), BytesReceived: uint64(200 + s.next(2_000)), Duration: time.Duration(s.next(200_000)) * time.Microsecond,
	}
	if s.next(20) == 0 {
		r.Verdict, r.Path, r.Status, r.Flags = record.Denied, "blackhole", 403, []string{"UAEX"}
		r.Reason, r.Destination, r.DecidedBy = "no rule allows it", "", record.Object{Kind: "EgressPolicy", Namespace: namespace, Name: "allowed", Rule: "default", Revision: "77aa"}
	}
	return r
}
