package simulate_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/simulate"
)

// BenchmarkSimulate asks a store with 300,000 inputs that stand for 100 million records, of 30 days: 200 workloads that ask for 50 hosts each, by
// 30 paths. 1,000 entries and 50 policies say who may.
func BenchmarkSimulate(b *testing.B) {
	const workloads, hosts, paths, days, records = 200, 50, 30, 30, 100_000_000
	objects := ""
	for i := range 1000 {
		objects += fmt.Sprintf("---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e%d, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}\n"+
			"spec: {hosts: [h%d.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}\n", i, i)
	}
	for i := range 50 {
		objects += fmt.Sprintf("---\napiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: p%d, namespace: shop}\nspec: {serviceAccounts: [w%d], default: Allow, rules: [{hosts: [h%d.test], paths: [/none/**], action: Deny}]}\n", i, i, i)
	}
	before, after := read(b, base, objects), read(b, base, objects, policy("{default: Allow, rules: [{hosts: [h1.test], action: Deny}]}"))
	dir := b.TempDir()
	s, err := store.Open(b.Context(), dir, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	// As a store has it that gathered such records for a month; making them takes longer than the benchmark.
	if _, err := s.DB().Exec(fmt.Sprintf(`INSERT INTO %s BY NAME SELECT w * %d + h AS id, 'shop' AS namespace, 'w' || w AS service_account, 'w' || w AS workload, '' AS labels, '' AS claim,
		'sidecar' AS reporter, 'outbound' AS direction, 'http' AS class, 'http' AS protocol, 'h' || ((w * 7 + h) %% 1000) || '.test' AS host, '' AS sni, 80 AS port, 'GET' AS method,
		'203.0.113.9:80' AS dialled, '' AS cut, '' AS beyond, 'allowed' AS verdict, 'direct' AS path, '' AS decided_by, '' AS allowed_by, '' AS would_deny, '' AS reason
		FROM range(%d) a(w), range(%[2]d) b(h)`, store.InputKinds, hosts, workloads)); err != nil {
		b.Fatal(err)
	}
	if _, err := s.DB().Exec(fmt.Sprintf(`INSERT INTO %s BY NAME SELECT w * %d + h AS kind, DATE '2027-04-01' + CAST(d AS INTEGER) AS day, '/v' || p AS url_path, %d AS records, 0 AS lost,
		TIMESTAMPTZ '2027-04-01' + to_days(CAST(d AS INTEGER)) AS first, TIMESTAMPTZ '2027-04-01' + to_days(CAST(d AS INTEGER)) AS last, 3 AS replicas, 1 AS bytes_sent, 1 AS bytes_received, now() AS ingested
		FROM range(%d) a(w), range(%[2]d) b(h), range(%[5]d) c(p), range(%[6]d) e(d)`, store.InputsTable, hosts, records/(workloads*hosts*paths*days), workloads, paths, days)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		run := simulate.New(&simulate.Sides{Base: before.snapshot, Candidate: after.snapshot, Now: now, Revision: func(config.Key) string { return "" }})
		if err := store.EachInput(b.Context(), s.DB(), store.InputsFilter{}, run.Add); err != nil {
			b.Fatal(err)
		}
		if r := run.Finish(); r.Distinct != workloads*hosts*paths || r.NotReproducible > 0 || r.Inputs.NewlyDenied == 0 {
			b.Fatalf("%d inputs, not reproducible: %+v", r.Distinct, r.Why)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-of-Go")
}
