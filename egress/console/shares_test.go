package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// loud is what many workloads of one namespace did, most of it to the pods of another, and quiet is that one's own.
func loud(t *testing.T) http.Handler {
	t.Helper()
	who := func(namespace, account string) record.Workload {
		return record.Workload{Namespace: namespace, ServiceAccount: account, Name: account + "-0"}
	}
	var records []record.Record
	add := func(r record.Record) {
		r.Seq, r.Epoch, r.Time, r.Class, r.Verdict, r.Protocol = uint64(len(records)+1), 1, noon.Add(-time.Duration(len(records)+1)*time.Second), record.Network, record.Allowed, "tls"
		r.Proxy = "sidecar~10.0.0.5~db-0.legacy~legacy.svc.cluster.local"
		records = append(records, r)
	}
	for i := range 3 * mostFlows {
		for range 4 {
			add(record.Record{Workload: who("strange", fmt.Sprintf("many%d", i)), Host: fmt.Sprintf("h%d.example.net", i), Reporter: record.ReporterDestination, Direction: record.Inbound, DestinationWorkload: who("legacy", "db")})
		}
	}
	add(record.Record{Workload: who("legacy", "quiet"), Host: "quiet.example.com", Reporter: record.ReporterSidecar, Direction: record.Outbound})
	return served(t, records, guardedOptions)
}

// TestLoudNamespaces: however much one namespace does, what another one did is on the pages of who reads both, and of who reads that one.
func TestLoudNamespaces(t *testing.T) {
	h := loud(t)
	for _, who := range []string{"owner", "auditor"} {
		for _, at := range []string{"/flows", "/flows?by=bytes", "/"} {
			status, text := as(t, h, who, http.MethodGet, at)
			if status != http.StatusOK || !strings.Contains(text, "legacy/quiet") || !strings.Contains(text, "strange/many") {
				t.Errorf("%s for %s: %d, without what is quiet or what is loud: %.3000s", at, who, status, text[strings.Index(text, "<main"):])
			}
		}
	}
}

// TestShares: half of the places are the first ones', and the others each namespace's in turn, in the order that there was.
func TestShares(t *testing.T) {
	var list []string
	for i := range 50 {
		list = append(list, fmt.Sprintf("a%d", i))
	}
	list = append(list, "b0", "b1", "c0")
	got := shares(list, 10, func(s *string) string { return (*s)[:1] })
	if want := "a0 a1 a2 a3 a4 a5 a6 b0 b1 c0"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := shares(list, 53, func(s *string) string { return *s }); len(got) != 53 {
		t.Error(got)
	}
}
