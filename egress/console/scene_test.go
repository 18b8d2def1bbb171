package console

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/detect"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var noon = time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)

// hostile is what an attacker writes into names.
const hostile = `<img src=x onerror=alert(1)>"'&`

// scene is a day's log: some workloads, what they use, what is denied, a gap, and names that are hostile.
func scene(t testing.TB) []record.Record {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var out []record.Record
	add := func(at time.Time, change func(*record.Record)) {
		r := record.Record{Proxy: "router~10.0.0.9~istio-egressgateway-7c.istio-system~istio-system.svc.cluster.local", Epoch: 1, Seq: uint64(len(out) + 1), Time: at,
			Class: record.HTTP, Verdict: record.Allowed, Path: record.PathGateway, Reporter: record.ReporterGateway, Direction: record.Outbound, Port: 443, Protocol: "tls",
			BytesSent: 1200 + rng.Uint64N(90_000), BytesReceived: 400 + rng.Uint64N(4_000), Duration: time.Duration(rng.IntN(900)) * time.Millisecond}
		change(&r)
		out = append(out, r)
	}
	who := func(ns, account, pod string) record.Workload {
		return record.Workload{Principal: "spiffe://cluster.local/ns/" + ns + "/sa/" + account, Namespace: ns, ServiceAccount: account, Name: pod, Labels: "app=" + account}
	}
	registered := record.Object{Kind: "ServiceEntry", Namespace: "shop", Name: "partners", Revision: "0011223344556677"}
	for i := range 400 {
		at := noon.Add(-time.Duration(rng.IntN(1400)) * time.Minute)
		add(at, func(r *record.Record) {
			r.Workload = who("shop", "cart", fmt.Sprintf("cart-6d5f7c9b4-x%dk7x", i%3+2))
			r.Host, r.DecidedBy, r.Reason, r.Destination = []string{"api.partner.example", "pay.partner.example", "cdn.example.org"}[i%3], registered, "registered", "203.0.113.7:443"
		})
	}
	for i := range 120 {
		add(noon.Add(-time.Duration(i)*7*time.Minute), func(r *record.Record) {
			r.Workload = who("shop", "checkout", "checkout-5b6c7d8f9-abcde")
			r.Host, r.DecidedBy, r.Reason, r.Protocol, r.Port, r.Method, r.URLPath, r.Status = "api.partner.example", registered, "registered", "http", 80, "GET", "/v1/orders/"+fmt.Sprint(i), 200
			r.AllowedBy = record.Object{Kind: record.EgressPolicy, Namespace: "shop", Name: "checkout", Rule: "partners"}
		})
	}
	for i := range 60 {
		add(noon.Add(-time.Duration(i)*11*time.Minute), func(r *record.Record) {
			r.Workload = who("legacy", "report", "report-0")
			r.Host, r.Verdict, r.Path, r.Reason, r.Reporter = fmt.Sprintf("x%d.tracker.example.net", i%9), record.Denied, record.PathBlackhole, "not registered", record.ReporterSidecar
			r.BytesSent, r.BytesReceived = 0, 0
		})
	}
	for i := range 20 {
		add(noon.Add(-time.Duration(i)*13*time.Minute), func(r *record.Record) {
			r.Workload = who("shop", "cart", "cart-6d5f7c9b4-x2k7x")
			r.Host, r.DecidedBy, r.Flags = "old.partner.example", registered, []string{"UF", "URX"}
			r.Reason = "registered; failed: upstream_reset_before_response_started{remote_connection_failure|TLS_error:|268435581:SSL_routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify_cert_failed:_X509_verify_cert:_certificate_verification_error_at_depth_0:_self-signed_certificate:TLS_error_end}"
		})
	}
	add(noon.Add(-3*time.Minute), func(r *record.Record) {
		r.Workload, r.Host, r.Verdict, r.Path = who("shop", hostile, hostile), hostile, record.Denied, record.PathBlackhole
		r.Reason, r.URLPath, r.Method, r.Protocol = hostile+" "+fmt.Sprintf("%0200d", 0), "/"+hostile, hostile, "http"
		r.DecidedBy = record.Object{Kind: record.EgressPolicy, Namespace: "shop", Name: hostile, Rule: hostile}
	})
	add(noon.Add(-5*time.Minute), func(r *record.Record) {
		*r = record.Record{Proxy: r.Proxy, Epoch: 1, Seq: r.Seq, Time: r.Time, Class: record.Gap, Count: 12, Reason: "the disk was full"}
	})
	return out
}

// stored is a store of records.
func stored(t testing.TB, records []record.Record) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Store(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	return s
}

// served is the console of a log.
func served(t testing.TB, records []record.Record, change func(*Options)) http.Handler {
	t.Helper()
	return console(t, stored(t, records), change)
}

// busyAnswerTime is what an answer may take here: the machine may be busy.
const busyAnswerTime = 2 * time.Minute

func console(t testing.TB, s *store.Store, change func(*Options)) http.Handler {
	t.Helper()
	o := Options{answerTime: busyAnswerTime, DB: s.DB(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: func() time.Time { return noon }, Found: func() *detect.Report {
		return &detect.Report{Window: detect.Window{Since: noon.Add(-24 * time.Hour), Until: noon.Add(-time.Minute)}, Findings: []detect.Finding{
			{ID: "beacon-1", Detection: "beacon", Title: "Regular connections", Severity: 4, Namespace: "legacy", Workload: "report", Host: "x1.tracker.example.net", Port: 443, First: noon.Add(-9 * time.Hour), Last: noon, Count: 60, Evidence: map[string]any{"interval": 660, "why": hostile}},
			{ID: "first-seen-host-1", Detection: "first-seen-host", Title: "First seen host", Severity: 2, Namespace: "shop", Workload: hostile, Host: hostile, First: noon, Last: noon, Count: 1}}}
	}}
	if change != nil {
		change(&o)
	}
	return newHandler(o, isLoopbackHost)
}

func get(t testing.TB, h http.Handler, host, path string) *http.Response {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	return w.Result()
}
