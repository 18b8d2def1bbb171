package serve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
)

func unknownNames(of string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("outbound|443||%s%d.test", of, i))
	}
	return names
}

// TestUnknownNames: of what a stream asks for and nobody has a bounded part is kept, whatever it asks for by name; what is there is followed, and what was asked for lately when it comes.
func TestUnknownNames(t *testing.T) {
	l := newLab(t, everybody, fixed("default", "one", "one.test", "192.0.2.1"))
	c := l.connect(node("app", "default"))
	const there, late = "outbound|443||one.test", "outbound|443||late.test"
	c.ask(resource.Endpoints, there)
	c.take(resource.Endpoints)
	for i := range 4 {
		names := unknownNames(fmt.Sprint("none-", i, "-"), serve.MostUnknown)
		c.ask(resource.Endpoints, names...)
		if a := c.take(resource.Endpoints); len(a.removed) != len(names) {
			t.Fatalf("%d of %d names were answered", len(a.removed), len(names))
		}
	}
	c.ask(resource.Endpoints, late)
	c.take(resource.Endpoints)
	if kept := l.cache.Waiting(resource.Endpoints); kept > serve.MostUnknown+1 {
		t.Errorf("%d names are kept, want %d at most", kept, serve.MostUnknown+1)
	}
	l.apply(fixed("default", "one", "one.test", "192.0.2.3"), fixed("default", "late", "late.test", "192.0.2.2"))
	if a := c.take(resource.Endpoints); !slices.Equal(a.names(), []string{late, there}) {
		t.Errorf("%+v", a)
	}
}

// TestUnknownClusters: so it is beside a subscription to everything.
func TestUnknownClusters(t *testing.T) {
	l := newLab(t, everybody, fixed("default", "one", "one.test", "192.0.2.1"))
	c := l.connect(node("app", "default"))
	c.ask(resource.Cluster)
	c.take(resource.Cluster)
	for i := range 4 {
		c.ask(resource.Cluster, unknownNames(fmt.Sprint("none-", i, "-"), serve.MostUnknown)...)
		c.take(resource.Cluster)
	}
	if kept := l.cache.Waiting(resource.Cluster); kept > serve.MostUnknown {
		t.Errorf("%d names are kept, want %d at most", kept, serve.MostUnknown)
	}
}

// TestUnknownNamesOfTheWorld: a state-of-the-world stream is followed for what is there, beside as many others.
func TestUnknownNamesOfTheWorld(t *testing.T) {
	l := newLab(t, everybody, fixed("default", "one", "one.test", "192.0.2.1"))
	c := l.connectOld(node("app", "default"))
	names := append(unknownNames("none", 2*serve.MostUnknown), "outbound|443||one.test")
	c.ask(resource.Endpoints, names...)
	if n, _ := c.next(resource.Endpoints); n != 1 {
		t.Errorf("%d resources", n)
	}
	c.ask(resource.Endpoints, names...)
	l.becomes("it waits for what is there, and for as many others", func() bool { return l.cache.Waiting(resource.Endpoints) == serve.MostUnknown+1 })
}

// TestNamesOfNoProxy: requests whose names no proxy would ask for end their stream.
func TestNamesOfNoProxy(t *testing.T) {
	l := newLab(t, everybody)
	long := strings.Repeat("n", serve.LongestAsked+1)
	many := map[string]string{}
	for i := range serve.MostAsked + 1 {
		many[fmt.Sprint(i)] = "1"
	}
	for what, c := range map[string]struct {
		req  *discovery.DeltaDiscoveryRequest
		want codes.Code
	}{
		"a long name":             {&discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{long}}, codes.InvalidArgument},
		"a long name, taken back": {&discovery.DeltaDiscoveryRequest{ResourceNamesUnsubscribe: []string{long}}, codes.InvalidArgument},
		"many names":              {&discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: make([]string, serve.MostAsked+1)}, codes.ResourceExhausted},
		"many that it has":        {&discovery.DeltaDiscoveryRequest{InitialResourceVersions: many}, codes.ResourceExhausted},
	} {
		stream := l.connect(node("app", "default"))
		c.req.TypeUrl = resource.Endpoints.URL()
		stream.send(c.req)
		if err := <-stream.failed; status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}
