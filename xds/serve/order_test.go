package serve_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/resource"
)

// subscribed has everything, as an Envoy of a sidecar has.
func (l *lab) subscribed(n ...string) *client {
	l.t.Helper()
	return l.connect(node("app", "default", n...)).subscribe()
}

func (c *client) subscribe() *client {
	for _, t := range []resource.Type{resource.Cluster, resource.Listener} {
		c.ask(t)
		c.take(t)
	}
	c.ask(resource.Endpoints, gatewayCluster)
	c.take(resource.Endpoints)
	c.ask(resource.Route, "80", "443")
	c.take(resource.Route)
	c.ask(resource.VirtualHost)
	c.take(resource.VirtualHost)
	return c
}

// inUse is a gateway that a host leaves by.
func inUse() []*config.Object {
	return append(gatewayPod("10.0.0.2"), entry("default", "start", "start.test", httpPort, tlsPort))
}

// TestAdditionsInOrder: what is referred to comes before what refers to it, and removals of clusters come last.
func TestAdditionsInOrder(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c := l.subscribed()
	direct := fixed("default", "one", "one.test", "192.0.2.1")
	l.apply(direct)
	const cluster = "outbound|443||one.test"
	if a := c.take(resource.Cluster); !slices.Equal(a.names(), []string{cluster}) {
		t.Errorf("clusters first: %+v", a)
	}
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"443/one.test"}) {
		t.Errorf("then who uses them: %+v", a)
	}
	c.ask(resource.Endpoints, cluster)
	c.take(resource.Endpoints)

	l.remove(direct)
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"443/one.test"}) {
		t.Errorf("users go first: %+v", a)
	}
	if a := c.take(resource.Cluster); !slices.Equal(a.removed, []string{cluster}) || len(a.names()) > 0 {
		t.Errorf("then their clusters: %+v", a)
	}
	if a := c.take(resource.Endpoints); !slices.Equal(a.removed, []string{cluster}) {
		t.Errorf("and the endpoints: %+v", a)
	}
	c.quiet()
}

// TestNewTable: Envoy listens to virtual hosts from the moment on that it has their table, so they are sent after it,
// although all virtual hosts were sent before.
func TestNewTable(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c := l.subscribed()
	l.apply(entry("default", "odd", "odd.test", oddPort), entry("default", "a", "a.test", httpPort))
	c.take(resource.Cluster)
	if a := c.take(resource.Listener); !a.has("0.0.0.0_8080") {
		t.Fatalf("%+v", a)
	}
	c.take(resource.VirtualHost)
	c.ask(resource.Route, "8080")
	if a := c.take(resource.Route); !slices.Equal(a.names(), []string{"8080"}) {
		t.Fatalf("%+v", a)
	}
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"8080/odd.test"}) {
		t.Errorf("the new table's virtual hosts: %+v", a)
	}
	c.quiet()

	l.apply(entry("default", "a", "a.test", oddPort)) // the table is there now
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"8080/a.test"}) || !slices.Equal(a.removed, []string{"80/a.test"}) {
		t.Errorf("one host more: %+v", a)
	}
	c.drop(resource.Route, "8080")
	c.ask(resource.Route, "8080") // the listener was replaced
	c.take(resource.Route)
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"8080/a.test", "8080/odd.test"}) {
		t.Errorf("asked for again: %+v", a)
	}
}

// TestSilentClient: who does not acknowledge gets one answer a type and no more, and nobody waits for it. When it
// speaks again, it gets what is true then, not what was.
func TestSilentClient(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	silent, alive := l.connect(node("silent", "default")), l.subscribed()
	silent.ask(resource.VirtualHost)
	silent.next(resource.VirtualHost) // and no ack
	silent.ask(resource.Cluster)
	silent.take(resource.Cluster)
	for i := range 50 {
		host := string(rune('a'+i%26)) + strings.Repeat("x", i/26) + ".test"
		l.apply(entry("default", "e"+host, host, httpPort))
		if a := alive.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/" + host}) {
			t.Fatalf("step %d: the other client got %+v", i, a)
		}
	}
	silent.quiet()
	l.apply(entry("default", "ea.test", "a.test", tlsPort))
	alive.take(resource.VirtualHost)
	silent.ack(resource.VirtualHost)
	a := silent.take(resource.VirtualHost)
	if len(a.names()) != 50 || !a.has("443/a.test") || a.has("80/a.test") {
		t.Errorf("50 steps later: %v", a.names())
	}
	silent.quiet()
}

// TestUnreadClient: one that does not even read holds up nobody, and leaves.
func TestUnreadClient(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	stuck, alive := l.unread(node("stuck", "default")), l.subscribed()
	for _, typ := range resource.Types() {
		if err := stuck.Send(request(typ)); err != nil {
			t.Fatal(err)
		}
	}
	l.becomes("two proxies", func() bool { return len(l.cache.Proxies()) == 2 })
	for i := range 200 {
		host := strings.Repeat("h", 1+i/26) + string(rune('a'+i%26)) + ".test"
		l.apply(entry("default", host, host, httpPort))
		alive.take(resource.VirtualHost)
	}
	if err := stuck.CloseSend(); err != nil {
		t.Fatal(err)
	}
	l.becomes("one proxy", func() bool { return len(l.cache.Proxies()) == 1 })
}

// TestClassChange: when a Sidecar object comes, the stream moves to another class and gets the difference.
func TestClassChange(t *testing.T) {
	l := newLab(t, everybody, append(inUse(),
		entry("default", "own", "own.test", httpPort), entry("shop", "theirs", "theirs.test", httpPort))...)
	picked, other := l.subscribed("app", "web"), l.subscribed("app", "db")
	narrow := sidecarObject("default", "narrow", map[string]string{"app": "web"}, "./*", "istio-system/*")
	l.apply(narrow)
	if a := picked.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/theirs.test"}) || len(a.names()) > 0 {
		t.Errorf("narrowed: %+v", a)
	}
	picked.quiet()
	other.quiet()
	l.apply(entry("shop", "more", "more.test", httpPort), entry("default", "own2", "own2.test", httpPort))
	if a := picked.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/own2.test"}) {
		t.Errorf("in its new class: %+v", a)
	}
	if a := other.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/more.test", "80/own2.test"}) {
		t.Errorf("in the old one: %+v", a)
	}
	l.remove(narrow)
	if a := picked.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/more.test", "80/theirs.test"}) {
		t.Errorf("widened again: %+v", a)
	}
	picked.quiet()
}

// TestRelabel: a pod whose labels change moves to what proxies with such labels get, without a new stream.
func TestRelabel(t *testing.T) {
	l := newLab(t, everybody, append(inUse(),
		entry("default", "own", "own.test", httpPort), entry("shop", "theirs", "theirs.test", httpPort),
		sidecarObject("default", "narrow", map[string]string{"app": "web"}, "./*", "istio-system/*"))...)
	c := l.subscribed("app", "db")
	l.cache.Relabel(map[string]map[string]string{"other.default": {"app": "web"}})
	c.quiet()
	pod := strings.Split(l.cache.Proxies()[0].ID, "~")[2]
	l.cache.Relabel(map[string]map[string]string{pod: {"app": "web"}})
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/theirs.test"}) || len(a.names()) > 0 {
		t.Errorf("picked by a Sidecar: %+v", a)
	}
	l.cache.Relabel(map[string]map[string]string{pod: nil})
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/theirs.test"}) || len(a.removed) > 0 {
		t.Errorf("picked no more: %+v", a)
	}
	c.quiet()
}
