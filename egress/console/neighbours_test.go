package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/review"
)

// ours is the configuration of the reader's namespace and of the root's; theirs are objects of others that say nothing about it.
const (
	ours = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: fine, namespace: legacy}
spec: {hosts: [fine.example.net], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: nightly, namespace: legacy}
spec: {serviceAccounts: [nightly], rules: [{name: fine, action: Allow, hosts: [fine.example.net]}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: floor, namespace: istio-system}
spec: {rules: [{name: evil, action: Deny, hosts: [evil.example.com], reason: nobody goes there}]}
`
	theirs = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: partners, namespace: shop}
spec: {hosts: [api.partner.example, x1.tracker.example.net], exportTo: ["."], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: checkout, namespace: shop}
spec: {rules: [{name: partners, action: Allow, hosts: ["*.partner.example"], expires: "2027-05-02T00:00:00Z"}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {outboundTrafficPolicy: {mode: ALLOW_ANY}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: fine, namespace: shop}
spec: {hosts: [fine.example.net], exportTo: ["."], http: [{route: [{destination: {host: api.partner.example}}]}]}
`
)

// TestOthersChangeNothing: whatever workloads of other namespaces did, what is configured there, found, decided and connected, who may read one namespace is told
// the same, byte for byte: pages, counts, lists, downloads, errors, and answers about what would be.
func TestOthersChangeNothing(t *testing.T) {
	mine := func(r *record.Record) bool {
		return r.Workload.Namespace == "legacy" || r.Reporter == record.ReporterDestination && r.DestinationWorkload.Namespace == "legacy"
	}
	came := record.Record{
		Proxy: "sidecar~10.0.0.5~db-0.legacy~legacy.svc.cluster.local", Epoch: 1, Seq: 1, Time: noon.Add(-time.Minute), Class: record.Network, Verdict: record.Denied,
		Reporter: record.ReporterDestination, Direction: "lateral", Claim: "spiffe://cluster.local/ns/strange/sa/mallory", Port: 5432, Protocol: "tcp",
		DestinationWorkload: record.Workload{Namespace: "legacy", ServiceAccount: "db", Name: "db-0"}, Reason: "came to db",
	}
	everybody := append(scene(t), came)
	for i := range 3_000 { // the same hosts, at the same times
		r := everybody[i%598]
		if r.Class != record.Gap {
			r.Workload = record.Workload{Namespace: fmt.Sprintf("team-%d", i%70), ServiceAccount: "report"}
			r.Host, r.Verdict, r.Path, r.BytesSent = fmt.Sprintf("x%d.tracker.example.net", i%9), record.Denied, record.PathBlackhole, 1<<40
		}
		r.Epoch, r.Seq = 7, uint64(i+1)
		everybody = append(everybody, r)
	}
	var alone []record.Record
	for i := range everybody {
		if mine(&everybody[i]) {
			alone = append(alone, everybody[i])
		}
	}
	finding := func(id, namespace string) detect.Finding {
		return detect.Finding{ID: id, Detection: "beacon", Title: "Regular connections", Severity: 4, Namespace: namespace, Workload: "report", Host: "x1.tracker.example.net", Port: 443, First: noon.Add(-9 * time.Hour), Last: noon, Count: 60}
	}
	console := func(records []record.Record, objects string, others bool) http.Handler {
		h := served(t, records, func(o *Options) {
			guardedOptions(o)
			configured(t, objects)(o)
			found := &detect.Report{Window: detect.Window{Since: noon.Add(-24 * time.Hour), Until: noon}, Findings: []detect.Finding{finding("a", "legacy")}}
			there := []presence.Proxy{{ID: "sidecar~10.0.0.5~db-0.legacy~legacy.svc.cluster.local"}, {ID: "sidecar~10.0.0.6~mute-0.legacy~legacy.svc.cluster.local"}}
			if others {
				for i := range 400 {
					found.Findings = append(found.Findings, finding(fmt.Sprint(i), fmt.Sprintf("team-%d", i%70)))
					there = append(there, presence.Proxy{ID: fmt.Sprintf("sidecar~10.0.1.%d~x-%d.shop~shop.svc.cluster.local", i%250, i)})
				}
				found.Skipped, found.Failed = []detect.Note{{Rule: "feed", Why: "shop"}}, []detect.Note{{Rule: "beacon", Why: "shop"}}
			}
			o.Found = func() *detect.Report { return found }
			o.Connected = func() ([]presence.Proxy, bool) { return there, true }
		})
		if others {
			for _, word := range []string{"rejected", "snoozed"} {
				for team := range 9 {
					tell(t, h, "auditor", "/review", url.Values{"id": {review.ID(fmt.Sprintf("team-%d", team), "report", "x1.tracker.example.net", 443)}, "action": {word}, "reason": {"not ours"}})
				}
			}
		}
		return h
	}
	quiet, busy := console(alone, ours, false), console(everybody, ours+theirs, true)
	asked := []string{
		"/", "/?q=since:30d", "/log", "/log?page=1", "/log?q=class:gap", "/log?q=class:action", "/log.json?q=since:30d", "/log.csv?q=since:30d", "/flows", "/flows?by=bytes", "/findings", "/policies", "/review", "/simulate",
		"/host?name=api.partner.example", "/host?name=x1.tracker.example.net", "/workload?name=shop/cart", "/workload?name=legacy/report", "/workload?name=team-1/report",
		"/log?q=namespace:shop", "/log?q=workload:team-1/report", "/log?q=-namespace:legacy", "/log?group=nothing", "/policies?host=api.partner.example", "/policies?from=legacy/report", "/policies?from=shop/cart", "/policies?from=nobody/x",
		"/record?proxy=router~10.0.0.9~istio-egressgateway-7c.istio-system~istio-system.svc.cluster.local&epoch=1&seq=5", "/record?proxy=p&epoch=1&seq=1", recordLink(&alone[0]), recordLink(&came),
		"/explain?from=legacy/report&url=https://api.partner.example", "/explain?from=legacy/report&url=https://x1.tracker.example.net", "/explain?from=legacy/report&url=https://fine.example.net",
		"/explain?from=shop/cart&url=https://api.partner.example", "/explain?from=gone/cart&url=https://api.partner.example", "/log?q=bytes:>1TB", "/log?q=would-deny:*", "/log?q=to:*/*", "/?q=until:2027-04-01+since:2027-03-01",
	}
	for _, d := range dimensions {
		asked = append(asked, "/log?group="+d.Name+"&q=since:30d", "/log?group="+d.Name+"&q=verdict:denied")
	}
	// What depends on how full DuckDB's estimates are would be a leak, too: nothing is left out of the comparison.
	for _, at := range asked {
		s1, t1 := as(t, quiet, "owner", http.MethodGet, at)
		s2, t2 := as(t, busy, "owner", http.MethodGet, at)
		same(t, at, s1, s2, t1, t2)
	}
	const policy = "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: x, namespace: %s}\nspec: {default: Deny, rules: [{name: none, action: Deny}]}\n"
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: x, namespace: legacy}\nspec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}\n"
	id := func(namespace string) string { return review.ID(namespace, "report", "x1.tracker.example.net", 443) }
	for _, form := range []struct {
		path string
		url.Values
	}{
		{"/simulate", url.Values{"yaml": {fmt.Sprintf(policy, "legacy")}, "since": {"30d"}}},
		{"/simulate", url.Values{"yaml": {fmt.Sprintf(policy, "shop")}, "since": {"30d"}}},
		{"/simulate", url.Values{"yaml": {fmt.Sprintf(policy, "gone")}, "since": {"30d"}}},
		{"/simulate", url.Values{"yaml": {fmt.Sprintf(entry, "x1.tracker.example.net")}, "since": {"30d"}}},
		{"/simulate", url.Values{"yaml": {fmt.Sprintf(entry, "api.partner.example")}, "since": {"30d"}}},
		{"/simulate", url.Values{"yaml": {fmt.Sprintf(entry, `"*.partner.example"`)}, "since": {"30d"}}},
		{"/review", url.Values{"id": {id("team-1")}, "action": {"approved"}}},
		{"/review", url.Values{"id": {id("nobody")}, "action": {"approved"}}},
		{"/review", url.Values{"id": {id("legacy")}, "action": {"approved"}}},
		{"/review", url.Values{"id": {id("legacy")}, "action": {"approved"}}},
	} {
		s1, t1 := tell(t, quiet, "owner", form.path, form.Values)
		s2, t2 := tell(t, busy, "owner", form.path, form.Values)
		same(t, form.path+"?"+form.Encode(), s1, s2, t1, t2)
	}
}

// itself are words of an answer that stand for a question: what of a stranger's name the reader wrote.
var itself = regexp.MustCompile(`\b` + review.ID("team-1", "report", "x1.tracker.example.net", 443) + `|` + review.ID("nobody", "report", "x1.tracker.example.net", 443))

func same(t *testing.T, at string, s1, s2 int, t1, t2 string) {
	t.Helper()
	if s1 != s2 {
		t.Errorf("%s: %d alone, %d beside others", at, s1, s2)
	}
	l1, l2 := strings.Split(itself.ReplaceAllString(t1, "ID"), "\n"), strings.Split(itself.ReplaceAllString(t2, "ID"), "\n")
	for i := range max(len(l1), len(l2)) {
		var a, b string
		if i < len(l1) {
			a = l1[i]
		}
		if i < len(l2) {
			b = l2[i]
		}
		if a != b {
			t.Errorf("%s: alone\n%.600s\nbeside others\n%.600s", at, a, b)
			return
		}
	}
}
