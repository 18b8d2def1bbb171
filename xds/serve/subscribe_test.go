package serve_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/resource"

	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

const gatewayCluster = "outbound|443||istio-egressgateway.istio-system.svc.cluster.local"

// TestWildcard: an empty first request and "*" both mean everything, once, and then only what changes.
func TestWildcard(t *testing.T) {
	for name, subscribe := range map[string][]string{"legacy": nil, "explicit": {"*"}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, everybody, entry("default", "a", "a.test", httpPort, tlsPort))
			c := l.connect(node("app", "default"))
			c.ask(resource.VirtualHost, subscribe...)
			if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"443/a.test", "80/a.test"}) {
				t.Errorf("at first: %+v", a)
			}
			l.apply(entry("default", "b", "b.test", httpPort))
			if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/b.test"}) || len(a.removed) > 0 {
				t.Errorf("one host more: %+v", a)
			}
			l.apply(entry("default", "b", "b.test", httpPort)) // written again, the same
			c.quiet()
			l.apply(entry("default", "a", "a.test", httpPort))
			a := c.take(resource.VirtualHost)
			if !slices.Equal(a.removed, []string{"443/a.test"}) || a.has("80/b.test") {
				t.Errorf("one port less: %+v", a)
			}
			c.quiet()
		})
	}
}

// TestEmptyWildcard: nothing is an answer too, since the client waits for one.
func TestEmptyWildcard(t *testing.T) {
	c := newLab(t, everybody).connect(node("app", "default"))
	c.ask(resource.OnDemandCluster)
	if a := c.take(resource.OnDemandCluster); len(a.names())+len(a.removed) > 0 {
		t.Errorf("%+v", a)
	}
	c.quiet()
}

func TestNamedEndpoints(t *testing.T) {
	one := fixed("default", "one", "one.test", "192.0.2.1")
	l := newLab(t, everybody, one, fixed("default", "two", "two.test", "192.0.2.2"))
	c := l.connect(node("app", "default"))
	const first, second = "outbound|443||one.test", "outbound|443||two.test"
	c.ask(resource.Endpoints, first, "outbound|443||none.test")
	a := c.take(resource.Endpoints)
	if !slices.Equal(a.names(), []string{first}) || !slices.Equal(a.removed, []string{"outbound|443||none.test"}) {
		t.Fatalf("asked for one that is there and one that is not: %+v", a)
	}
	l.apply(fixed("default", "two", "two.test", "192.0.2.3")) // not subscribed to
	c.quiet()
	c.ask(resource.Endpoints, second)
	if a := c.take(resource.Endpoints); !slices.Equal(a.names(), []string{second}) {
		t.Errorf("one more: %+v", a)
	}
	l.apply(fixed("default", "one", "one.test", "192.0.2.9"))
	changed := c.take(resource.Endpoints)
	if !slices.Equal(changed.names(), []string{first}) || changed.versions[first] == a.versions[first] {
		t.Errorf("another address: %+v", changed)
	}
	l.remove(one)
	if a := c.take(resource.Endpoints); !slices.Equal(a.removed, []string{first}) || len(a.names()) > 0 {
		t.Errorf("gone: %+v", a)
	}
	l.apply(one)
	if a := c.take(resource.Endpoints); !slices.Equal(a.names(), []string{first}) {
		t.Errorf("back: %+v", a)
	}
	c.quiet()
}

// TestSubscribeAgain: what was unsubscribed is not sent, and a new subscription gets it whole, unchanged as it is.
func TestSubscribeAgain(t *testing.T) {
	l := newLab(t, everybody, fixed("default", "one", "one.test", "192.0.2.1"))
	c := l.connect(node("app", "default"))
	const name = "outbound|443||one.test"
	c.ask(resource.Endpoints, name)
	before := c.take(resource.Endpoints)
	c.drop(resource.Endpoints, name)
	c.quiet()
	l.apply(fixed("default", "one", "one.test", "192.0.2.2"))
	c.quiet()
	l.apply(fixed("default", "one", "one.test", "192.0.2.1"))
	c.ask(resource.Endpoints, name)
	if a := c.take(resource.Endpoints); a.versions[name] != before.versions[name] {
		t.Errorf("asked again: %+v, want the version of %+v", a, before)
	}
	c.ask(resource.Endpoints, name) // a client that asks for what it has wants it again
	if a := c.take(resource.Endpoints); a.versions[name] != before.versions[name] {
		t.Errorf("asked once more: %+v", a)
	}
	c.quiet()
}

// TestUnsubscribeFromWildcard: a client that takes everything and drops one name it had also named is told of it anew.
func TestUnsubscribeFromWildcard(t *testing.T) {
	l := newLab(t, everybody, entry("default", "a", "a.test", httpPort))
	c := l.connect(node("app", "default"))
	c.ask(resource.VirtualHost, "*", "80/a.test", "80/none.test")
	c.take(resource.VirtualHost)
	c.drop(resource.VirtualHost, "80/a.test")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/a.test"}) {
		t.Errorf("%+v", a)
	}
	c.drop(resource.VirtualHost, "80/none.test")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/none.test"}) {
		t.Errorf("%+v", a)
	}
	c.quiet()
	c.ask(resource.VirtualHost, "80/a.test", "80/nowhere.test") // on demand
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/a.test"}) || !slices.Equal(a.removed, []string{"80/nowhere.test"}) {
		t.Errorf("%+v", a)
	}
	c.quiet()
}

// TestReconnect: a client that says what it has is sent what it lacks, and no more.
func TestReconnect(t *testing.T) {
	b := entry("default", "b", "b.test", httpPort)
	l := newLab(t, everybody, append(gatewayPod("10.0.0.2"), entry("default", "a", "a.test", httpPort), b)...)
	wildcards := []resource.Type{resource.Cluster, resource.Listener, resource.VirtualHost, resource.Name}
	held := map[resource.Type]map[string]string{}
	c := l.connect(node("app", "default"))
	for _, typ := range wildcards {
		c.ask(typ)
		held[typ] = c.takeAll(typ).versions
	}
	c.ask(resource.Endpoints, gatewayCluster)
	held[resource.Endpoints] = c.take(resource.Endpoints).versions
	c.stop()

	again := l.connect(node("app", "default"))
	come := func(typ resource.Type, names ...string) {
		again.send(&discovery.DeltaDiscoveryRequest{TypeUrl: typ.URL(), ResourceNamesSubscribe: names, InitialResourceVersions: held[typ]})
	}
	for _, typ := range wildcards {
		come(typ)
		if a := again.takeAll(typ); len(a.names())+len(a.removed) > 0 { // an answer, for a client that waits for one
			t.Errorf("%s: sent again: %+v", typ.URL(), a)
		}
	}
	come(resource.Endpoints, gatewayCluster)
	again.quiet()
	again.stop()

	l.remove(b)
	l.apply(entry("default", "a", "a.test", tlsPort))
	third := l.connect(node("app", "default"))
	third.send(&discovery.DeltaDiscoveryRequest{TypeUrl: resource.VirtualHost.URL(), InitialResourceVersions: held[resource.VirtualHost]})
	a := third.take(resource.VirtualHost)
	if !slices.Equal(a.names(), []string{"443/a.test"}) || !slices.Equal(a.removed, []string{"80/a.test", "80/b.test"}) {
		t.Errorf("after a change: %+v", a)
	}
}

// TestClusterChangeSendsEndpointsAgain: Envoy warms a changed cluster anew and waits for its endpoints, which did not
// change.
func TestClusterChangeSendsEndpointsAgain(t *testing.T) {
	l := newLab(t, everybody, append(gatewayPod("10.0.0.2"), entry("default", "a", "a.test", tlsPort))...)
	c := l.connect(node("app", "default"))
	c.ask(resource.Cluster)
	c.take(resource.Cluster)
	c.ask(resource.Endpoints, gatewayCluster)
	before := c.take(resource.Endpoints)
	pod := gatewayPod("10.0.0.2")
	pod[1].Spec = withAccount(pod[1].Spec, "other") // the gateway's identity is in the cluster
	l.apply(pod...)
	if a := c.take(resource.Cluster); !slices.Equal(a.names(), []string{gatewayCluster}) {
		t.Errorf("the cluster: %+v", a)
	}
	if a := c.take(resource.Endpoints); a.versions[gatewayCluster] != before.versions[gatewayCluster] {
		t.Errorf("its endpoints: %+v, want those of before: %+v", a, before)
	}
	c.quiet()
}

// TestOneTypeAlone: the services for single types speak the same.
func TestOneTypeAlone(t *testing.T) {
	l := newLab(t, everybody, entry("default", "a", "a.test", tlsPort))
	ctx, stop := context.WithCancel(context.Background())
	stream, err := clusterservice.NewClusterDiscoveryServiceClient(l.conn).DeltaClusters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := l.over(stream, node("app", "default"), stop)
	c.send(&discovery.DeltaDiscoveryRequest{}) // the type goes without saying
	if a := c.take(resource.Cluster); !a.has("PassthroughCluster") || !a.has(gatewayCluster) {
		t.Errorf("%+v", a)
	}
}

// TestUnknownType: a type that is not served is never answered, and disturbs nothing.
func TestUnknownType(t *testing.T) {
	c := newLab(t, everybody).connect(node("app", "default"))
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.service.runtime.v3.Runtime"})
	c.quiet()
}

// TestReconnectWithNames: a client that comes back with names says what it has of them: what is the same is not sent,
// what changed is, and what is gone is said to be.
func TestReconnectWithNames(t *testing.T) {
	same, other, gone := fixed("default", "same", "same.test", "192.0.2.1"), fixed("default", "other", "other.test", "192.0.2.1"), fixed("default", "gone", "gone.test", "192.0.2.1")
	l := newLab(t, everybody, same, other, gone)
	names := []string{"outbound|443||same.test", "outbound|443||other.test", "outbound|443||gone.test"}
	c := l.connect(node("app", "default"))
	c.ask(resource.Endpoints, names...)
	held := c.take(resource.Endpoints).versions
	c.stop()
	l.remove(gone)
	l.apply(fixed("default", "other", "other.test", "192.0.2.2"))
	again := l.connect(node("app", "default"))
	again.send(&discovery.DeltaDiscoveryRequest{TypeUrl: resource.Endpoints.URL(), ResourceNamesSubscribe: names, InitialResourceVersions: held})
	a := again.take(resource.Endpoints)
	if !slices.Equal(a.names(), names[1:2]) || !slices.Equal(a.removed, names[2:]) {
		t.Errorf("%+v", a)
	}
	again.quiet()
	l.apply(gone)
	if a := again.take(resource.Endpoints); !slices.Equal(a.names(), names[2:]) {
		t.Errorf("back: %+v", a)
	}
}

// TestReconnectBehind: one that says that it has something else than what ever was sent gets everything that differs, and
// is told of what never was.
func TestReconnectBehind(t *testing.T) {
	l := newLab(t, everybody, entry("default", "a", "a.test", httpPort))
	c := l.connect(node("app", "default"))
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: resource.VirtualHost.URL(), InitialResourceVersions: map[string]string{
		"80/a.test": "0123456789abcdef", "80/never.test": "0123456789abcdef",
	}})
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/a.test"}) || !slices.Equal(a.removed, []string{"80/never.test"}) {
		t.Errorf("%+v", a)
	}
	c.quiet()
}

// TestNamesBesideWildcard: a client may leave the wildcard and keep a name that it also asked for, and come back to it.
func TestNamesBesideWildcard(t *testing.T) {
	l := newLab(t, everybody, entry("default", "a", "a.test", httpPort), entry("default", "b", "b.test", httpPort))
	c := l.connect(node("app", "default"))
	c.ask(resource.VirtualHost, "*", "80/a.test")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/a.test", "80/b.test"}) {
		t.Errorf("both: %+v", a)
	}
	c.drop(resource.VirtualHost, "*")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/a.test"}) { // what it keeps, again
		t.Errorf("without the wildcard: %+v", a)
	}
	c.quiet()
	l.apply(entry("default", "a", "a.test", tlsPort), entry("default", "b", "b.test", tlsPort))
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/a.test"}) || len(a.names()) > 0 {
		t.Errorf("its name is gone: %+v", a)
	}
	c.quiet()
	c.ask(resource.VirtualHost, "*")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"443/a.test", "443/b.test"}) {
		t.Errorf("everything again: %+v", a)
	}
	c.quiet()
}

// TestNamedCostsWhatChanges: what a change costs a stream does not grow with what its client named.
func TestNamedCostsWhatChanges(t *testing.T) {
	cost := func(hosts int) uint64 {
		var objects []*config.Object
		var names []string
		for i := range hosts {
			host := fmt.Sprintf("h%d.test", i)
			objects = append(objects, fixed("default", fmt.Sprintf("h%d", i), host, "192.0.2.1"))
			names = append(names, "outbound|443||"+host)
		}
		l := newLab(t, everybody, objects...)
		c := l.connect(node("app", "default"))
		c.ask(resource.Endpoints, names...)
		c.take(resource.Endpoints)
		step := func(i int) {
			l.apply(fixed("default", "h7", "h7.test", fmt.Sprintf("192.0.2.%d", 2+i)))
			if a := c.take(resource.Endpoints); !slices.Equal(a.names(), names[7:8]) {
				t.Fatalf("%+v", a)
			}
		}
		step(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 50 {
			step(1 + i)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 50
	}
	few, many := cost(20), cost(2000)
	t.Logf("one of 20 named: %d bytes allocated; one of 2,000: %d", few, many)
	if many > 2*few {
		t.Errorf("a change costs %d bytes where 20 are named, and %d where 2,000 are", few, many)
	}
}
