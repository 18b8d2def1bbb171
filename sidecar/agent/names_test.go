package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
)

func named(as string, n name.Name) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: as, Resource: &anypb.Any{TypeUrl: name.TypeURL, Value: n.Marshal()}}
}

func restOf(r name.Defaults) *discoveryv3.Resource {
	return named(name.Everything, name.Name{Host: name.Everything, Defaults: &r})
}

// served is a resolver that answers on loopback. Its upstream has every name at 10.0.0.1.
func served(t *testing.T, role string, edit func(*Config)) *resolver {
	t.Helper()
	c := &Config{
		Proxy: bootstrap.Options{Role: role, Namespace: "ns"}, DNSAddr: "127.0.0.1:0", ResolverAddr: "127.0.0.1:0",
		DNSUpstream: []string{privateNames(t)}, Log: slog.New(slog.DiscardHandler),
	}
	if edit != nil {
		edit(c)
	}
	r, err := c.resolver(prometheus.NewRegistry(), &refusals{log: c.Log, now: time.Now, append: func(record.Record) error { return nil }}, func(name.Defaults) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// lookup gives the response code and the addresses of a name.
func (r *resolver) lookup(t *testing.T, view, host string) string {
	t.Helper()
	reply, err := dns.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(host), dns.TypeA), r.Addr(view).String())
	if err != nil {
		t.Fatal(err)
	}
	out := dns.RcodeToString[reply.Rcode]
	for _, rr := range reply.Answer {
		if a, ok := rr.(*dns.A); ok {
			out += " " + a.A.String()
		}
	}
	return out
}

func TestNamesAreWatched(t *testing.T) {
	r := served(t, bootstrap.Sidecar, nil)
	table, watch := r.Names(), r.watch()
	refused := watch.Apply([]*discoveryv3.Resource{
		named("a.example.com", name.Name{Host: "a.example.com"}),
		named("b.example.com", name.Name{Host: "c.example.com"}),
		named("bad name..", name.Name{Host: "bad name.."}),
		named("other", name.Name{Host: name.Everything, Defaults: &name.Defaults{}}),
		{Name: "broken", Resource: &anypb.Any{Value: []byte{0xff}}},
	}, nil)
	if len(refused) != 4 || refused["a.example.com"] != nil {
		t.Errorf("refused %v", refused)
	}
	if table.Len() != 1 || !table.Ready() {
		t.Errorf("%d names, ready: %v", table.Len(), table.Ready())
	}
	if refused := watch.Apply(nil, []string{"a.example.com", "never"}); len(refused) != 0 || table.Len() != 0 {
		t.Errorf("after the removal %d names, refused %v", table.Len(), refused)
	}
}

// TestUnregisteredNamesOfASidecar: what the controller says about other names holds for applications, not for Envoy.
func TestUnregisteredNamesOfASidecar(t *testing.T) {
	r := served(t, bootstrap.Sidecar, nil)
	expect := func(when string, want map[string]string) {
		t.Helper()
		for _, host := range slices.Sorted(maps.Keys(want)) {
			if got := r.lookup(t, appView, host); got != want[host] {
				t.Errorf("%s: %s is %s, want %s", when, host, got, want[host])
			}
		}
	}
	all := []*discoveryv3.Resource{
		named("vip.test", name.Name{Host: "vip.test", Addresses: []netip.Addr{netip.MustParseAddr("240.240.0.1")}}),
		named("*.wild.test", name.Name{Host: "*.wild.test"}),
	}
	apply := func(removed []string, changed ...*discoveryv3.Resource) {
		t.Helper()
		if refused := r.apply(changed, removed); len(refused) > 0 {
			t.Fatal(refused)
		}
	}
	const upstream = "NOERROR 10.0.0.1"
	open := map[string]string{"vip.test": "NOERROR 240.240.0.1", "a.wild.test": upstream, "nobody.test": upstream, "a.ns.svc.cluster.local": upstream}
	closed := maps.Clone(open)
	closed["nobody.test"] = "NXDOMAIN"
	apply(nil, all...)
	expect("a controller of old", open)
	apply(nil, restOf(name.Defaults{Refuse: true, Local: []string{"cluster.local"}}))
	expect("refusing", closed)
	if got := r.lookup(t, resolverView, "nobody.test"); got != "NOERROR" { // found, and taken out for being private
		t.Errorf("Envoy is told %s", got)
	}
	if refused := r.apply([]*discoveryv3.Resource{restOf(name.Defaults{Refuse: true, Local: []string{"cluster.local"}, AllowPrivate: []string{"a b"}})}, nil); refused[name.Everything] == nil {
		t.Error("a pattern that is none is taken")
	}
	expect("after what is partly wrong", closed)
	apply([]string{"vip.test"})
	expect("one name less", map[string]string{"vip.test": "NXDOMAIN"})
	apply([]string{name.Everything}, all...)
	expect("taken back", open)
}

// TestLimitsOfASidecar: what its pod asks is counted as one client's, from whatever address; where others can ask, too, these have their own.
func TestLimitsOfASidecar(t *testing.T) {
	r := served(t, bootstrap.Sidecar, nil)
	if refused := r.apply([]*discoveryv3.Resource{restOf(name.Defaults{Rate: 1e-6})}, nil); len(refused) > 0 { // one, and no more in days
		t.Fatal(refused)
	}
	for i, want := range []int{dns.RcodeSuccess, dns.RcodeServerFailure, dns.RcodeServerFailure} {
		client := dns.Client{Timeout: time.Minute, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, byte(i), 1)}}}
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.test.", i), dns.TypeA), r.Addr(appView).String())
		if err != nil {
			t.Fatal(err)
		}
		if reply.Rcode != want {
			t.Errorf("question %d: %s", i, dns.RcodeToString[reply.Rcode])
		}
	}
	c := &Config{Proxy: bootstrap.Options{Role: bootstrap.Sidecar, Namespace: "ns", Name: "web-1", ServiceAccount: "web"}}
	for at, want := range map[string]bool{"127.0.0.1:15053": true, "[::1]:15053": true, "0.0.0.0:53": false, "10.0.0.1:53": false} {
		c.DNSAddr = at
		asker := c.asker()
		if (asker != nil) != want || want && workloadOf(asker) != c.origin().Workload {
			t.Errorf("at %s: %+v", at, asker)
		}
	}
}

// TestGatewayFollowsTheMesh: whom it asks, and what may be inside.
func TestGatewayFollowsTheMesh(t *testing.T) {
	inside := privateNames(t)
	r := served(t, bootstrap.Router, func(c *Config) { c.DNSUpstream, c.AllowPrivate = nil, []string{"flag.test"} })
	r.apply([]*discoveryv3.Resource{restOf(name.Defaults{
		Upstreams: []string{"127.0.0.1:9"}, Forward: []name.Forward{{Domain: "test", Upstreams: []string{inside}}},
		AllowPrivate: []string{"a.test", "*.wild.test"},
	})}, nil)
	for host, want := range map[string]string{"a.test": "NOERROR 10.0.0.1", "b.wild.test": "NOERROR 10.0.0.1", "flag.test": "NOERROR 10.0.0.1", "b.test": "NOERROR"} {
		if got := r.lookup(t, resolverView, host); got != want {
			t.Errorf("%s is %s, want %s", host, got, want)
		}
	}
	r.apply([]*discoveryv3.Resource{restOf(name.Defaults{Upstreams: []string{inside}})}, nil)
	for host, want := range map[string]string{"a.test": "NOERROR", "flag.test": "NOERROR 10.0.0.1"} {
		if got := r.lookup(t, resolverView, host); got != want {
			t.Errorf("after the setting has gone: %s is %s, want %s", host, got, want)
		}
	}
}

// TestNobodyIsLedToTheMeshsDoors: what is allowed does not count for its own gateways and its control plane.
func TestNobodyIsLedToTheMeshsDoors(t *testing.T) {
	r := served(t, bootstrap.Router, func(c *Config) { c.AllowPrivate = []string{"*"} })
	for never, want := range map[string]string{"10.0.0.2": "NOERROR 10.0.0.1", "10.0.0.1": "NOERROR", "::ffff:10.0.0.1": "NOERROR"} {
		if refused := r.apply([]*discoveryv3.Resource{restOf(name.Defaults{Never: []string{never}})}, nil); len(refused) > 0 {
			t.Fatal(refused)
		}
		if got := r.lookup(t, resolverView, "a.test"); got != want {
			t.Errorf("without %s, a.test is %s", never, got)
		}
	}
	if refused := r.apply([]*discoveryv3.Resource{restOf(name.Defaults{Never: []string{"x"}})}, nil); refused[name.Everything] == nil {
		t.Error("an address that is none is taken")
	}
}

// TestFlagsComeBeforeTheMesh: resolvers that the agent was started with stay.
func TestFlagsComeBeforeTheMesh(t *testing.T) {
	r := served(t, bootstrap.Router, func(c *Config) { c.AllowPrivate = []string{"10.0.0.0/8"} })
	if refused := r.apply([]*discoveryv3.Resource{restOf(name.Defaults{Upstreams: []string{"127.0.0.1:9"}})}, nil); len(refused) > 0 {
		t.Fatal(refused)
	}
	if got := r.lookup(t, resolverView, "a.test"); got != "NOERROR 10.0.0.1" {
		t.Errorf("a.test is %s", got)
	}
}
