package seen_test

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/seen"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// stored is a store that is asked.
type stored struct{ db *sql.DB }

func (s stored) SQL(ctx context.Context, statement string, sink query.RowSink) error {
	return query.SQL(ctx, s.db, statement, sink)
}

// source fills a store and gives what asks it.
func source(t *testing.T, records ...record.Record) seen.Source {
	t.Helper()
	s, err := store.Open(context.Background(), t.TempDir(), store.Options{Now: func() time.Time { return noon.AddDate(0, 0, -3) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range records {
		records[i].Proxy, records[i].Epoch, records[i].Seq = "p", 1, uint64(i+1)
	}
	if err := s.Store(context.Background(), records); err != nil {
		t.Fatal(err)
	}
	return stored{s.DB()}
}

func rec(at time.Duration, pod, host string, change func(*record.Record)) record.Record {
	r := record.Record{
		Time: noon.Add(at), Class: record.HTTP, Verdict: record.Allowed, Path: record.PathPassthrough, Direction: record.Outbound, Protocol: "http",
		Workload: record.Workload{Namespace: "shop", ServiceAccount: "cart", Name: pod, Labels: "app=cart,tier=web"},
		Host:     host, Port: 80, Method: "GET", URLPath: "/", Destination: "203.0.113.9:80", BytesSent: 10, BytesReceived: 1,
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestRead(t *testing.T) {
	const hostile = "a'; DROP TABLE records; --"
	s := source(t,
		rec(0, "cart-1", "a.test", func(r *record.Record) { r.URLPath = "/v1/users/17" }),
		rec(24*time.Hour, "cart-2", "a.test", func(r *record.Record) { r.URLPath = "/v1/users/18"; r.Destination = "203.0.113.10:80" }),
		rec(24*time.Hour, "cart-2", "a.test", func(r *record.Record) {
			r.Method, r.AllowedBy = "POST", record.Object{Kind: record.EgressPolicy, Namespace: "shop", Name: "list", Rule: "one"}
		}),
		rec(0, "cart-1", hostile, nil),
		rec(time.Minute, "cart-1", "db.test", func(r *record.Record) {
			r.Class, r.Protocol, r.Method, r.URLPath, r.Port = record.Network, "tcp", "", "", 5432
		}),
		rec(0, "cart-1", "refused.test", func(r *record.Record) {
			r.Class, r.Protocol, r.Method, r.URLPath, r.Port, r.Verdict, r.Path = record.DNS, "dns", "", "", 0, record.Denied, record.PathBlackhole
		}),
		rec(0, "cart-1", "in.test", func(r *record.Record) { r.Direction = record.Inbound }),
		rec(0, "cart-1", "claimed.test", func(r *record.Record) { r.Claim = "spiffe://cluster.local/ns/bank/sa/vault" }),
		rec(0, "", "nobody.test", func(r *record.Record) { r.Workload = record.Workload{} }),
		rec(-time.Hour, "cart-1", "before.test", nil),
		record.Record{Time: noon, Class: record.Gap, Count: 7},
	)
	log, err := seen.Read(t.Context(), s, seen.Question{Since: noon, Until: noon.AddDate(0, 0, 30)})
	if err != nil {
		t.Fatal(err)
	}
	if log.Gaps != 7 || log.Nameless != 1 || log.Claimed != 1 || len(log.Cut) > 0 || !log.Oldest.Equal(noon.AddDate(0, 0, -3)) {
		t.Errorf("%+v", log)
	}
	if want := map[seen.Rule]bool{{Namespace: "shop", Policy: "list", Name: "one"}: true}; !reflect.DeepEqual(log.Rules, want) {
		t.Errorf("%v", log.Rules)
	}
	var got []string
	for _, f := range log.Flows {
		got = append(got, fmt.Sprintf("%s/%s %s:%d %s %s %s %d days %v %v %d records %d/%d bytes", f.Namespace, f.Account, f.Host, f.Port, f.Protocol, f.Verdict, f.Way, len(f.Days), f.Replicas, f.Destinations, f.Records, f.BytesSent, f.BytesReceived))
	}
	want := []string{
		"shop/cart " + hostile + ":80 http allowed passthrough 1 days [cart-1] [203.0.113.9] 1 records 10/1 bytes",
		"shop/cart a.test:80 http allowed passthrough 2 days [cart-1 cart-2] [203.0.113.10 203.0.113.9] 3 records 30/3 bytes",
		"shop/cart db.test:5432 tcp allowed passthrough 1 days [cart-1] [203.0.113.9] 1 records 10/1 bytes",
		"shop/cart refused.test:0 dns denied blackhole 1 days [cart-1] [203.0.113.9] 1 records 10/1 bytes",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	f := log.Flows[1]
	if want := []seen.Template{{Pattern: "/v1/users/*", Example: "/v1/users/17"}}; !reflect.DeepEqual(f.Requests["GET"].Templates(64), want) || len(f.Requests) != 2 {
		t.Errorf("%v", f.Requests["GET"].Templates(64))
	}
	if label, app := f.App(); label != "app" || app != "cart" || f.LabelMap()["tier"] != "web" {
		t.Error(label, app)
	}
	if !f.First.Equal(noon) || !f.Last.Equal(noon.Add(24*time.Hour)) {
		t.Error(f.First, f.Last)
	}
	none, err := seen.Read(t.Context(), s, seen.Question{Namespace: "it's"})
	if err != nil || len(none.Flows) != 0 {
		t.Error(none, err)
	}
}

func TestReadAnEmptyLog(t *testing.T) {
	log, err := seen.Read(t.Context(), source(t), seen.Question{})
	if err != nil || len(log.Flows) != 0 || !log.Oldest.IsZero() || log.Gaps != 0 {
		t.Errorf("%+v %v", log, err)
	}
}

// TestShares: however many flows one namespace has, another one's few are read, and which one is cut is said.
func TestShares(t *testing.T) {
	var records []record.Record
	for i := range 200 {
		for range 3 {
			records = append(records, rec(0, "loud-1", fmt.Sprintf("h%d.test", i), func(r *record.Record) { r.Workload.Namespace = "loud" }))
		}
	}
	for i := range 5 {
		records = append(records, rec(0, "cart-1", fmt.Sprintf("h%d.test", i), nil))
	}
	log, err := seen.Read(t.Context(), source(t, records...), seen.Question{Most: 20})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, f := range log.Flows {
		of[f.Namespace]++
	}
	if of["shop"] != 5 || of["loud"] != 15 || !reflect.DeepEqual(log.Cut, map[string]bool{"loud": true}) {
		t.Errorf("%v, cut %v", of, log.Cut)
	}
}
