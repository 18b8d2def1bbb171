package serve_test

import (
	"slices"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
)

// named is subscribed, and its agent has the names.
func (l *lab) named() *client {
	l.t.Helper()
	c := l.subscribed()
	c.ask(resource.Name)
	c.take(resource.Name)
	return c
}

// exitPod is the default gateway's, as far as its Envoy and its agent are with everything.
func (l *lab) exitPod() *client {
	l.t.Helper()
	c := l.connect(&core.Node{
		Id: "router~10.0.0.2~egress-1.istio-system~istio-system.svc.cluster.local",
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"NAMESPACE": structpb.NewStringValue("istio-system"),
			"LABELS": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"istio": structpb.NewStringValue("egressgateway"),
			}}),
		}},
	})
	for _, t := range []resource.Type{resource.Cluster, resource.Listener, resource.VirtualHost} {
		c.ask(t)
		c.take(t)
	}
	return c
}

func (c *client) names(what string, want ...string) {
	c.t.Helper()
	if a := c.take(resource.Name); !slices.Equal(a.names(), want) {
		c.t.Fatalf("%s: %v (and without %v), want %v", what, a.names(), a.removed, want)
	}
}

// TestNamesWaitForRows: a name is answered when Envoy has what it leads to, and not before.
func TestNamesWaitForRows(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c := l.named()

	l.apply(entry("default", "a", "a.test", httpPort))
	c.next(resource.VirtualHost) // Envoy has not said anything about it yet
	c.quiet()
	l.apply(entry("default", "b", "b.test", httpPort))
	c.quiet()
	c.ack(resource.VirtualHost)
	if a := c.next(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/b.test"}) {
		t.Fatalf("the next row: %+v", a)
	}
	c.quiet()
	c.ack(resource.VirtualHost)
	c.names("both", "a.test", "b.test")
	c.quiet()

	l.apply(entry("default", "c", "c.test", httpPort))
	c.next(resource.VirtualHost)
	c.refuse(resource.VirtualHost, "no")
	c.names("a refusal is a word", "c.test")
	c.quiet()
}

// TestNamesWaitForTables: the first host of a port has a listener, a table and a row, one after the other.
func TestNamesWaitForTables(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c := l.named()
	l.apply(entry("default", "odd", "odd.test", oddPort))
	c.take(resource.Cluster)
	c.next(resource.Listener)
	c.ask(resource.Route, "8080") // as Envoy does before it acknowledges the listener
	c.ack(resource.Listener)
	c.take(resource.VirtualHost) // nobody listens to it yet
	c.next(resource.Route)
	c.next(resource.VirtualHost)
	c.quiet()
	c.ack(resource.Route)
	c.quiet()
	c.ack(resource.VirtualHost)
	c.names("then the name", "odd.test")
	c.quiet()
}

// TestAskingMoreIsNoWord: a request for more names of a type says nothing about what was sent of it.
func TestAskingMoreIsNoWord(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c := l.named()
	l.apply(fixed("default", "one", "one.test", "192.0.2.1"))
	c.take(resource.Cluster)
	c.take(resource.VirtualHost)
	c.names("nothing is asked for yet", "one.test")
	c.ask(resource.Endpoints, "outbound|443||one.test")
	c.next(resource.Endpoints)
	l.apply(entry("default", "a", "a.test", httpPort))
	c.take(resource.VirtualHost)
	c.drop(resource.Endpoints, "none")
	c.ask(resource.Route, "none")
	c.take(resource.Route) // nothing else came
	c.ack(resource.Endpoints)
	c.names("then the name", "a.test")
}

// TestNamesGoFirst: a name that is gone is no longer answered when its row goes.
func TestNamesGoFirst(t *testing.T) {
	a := entry("default", "a", "a.test", httpPort)
	l := newLab(t, everybody, append(inUse(), a)...)
	c := l.named()
	c.quiet()
	l.remove(a)
	if a := c.next(resource.Name); !slices.Equal(a.removed, []string{"a.test"}) {
		t.Fatalf("the name: %+v", a)
	}
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/a.test"}) {
		t.Fatalf("its row: %+v", a)
	}
	c.ack(resource.Name)
	c.quiet()

	l.apply(a)
	c.next(resource.VirtualHost)
	l.remove(a) // before it was ever answered
	c.ack(resource.VirtualHost)
	c.take(resource.VirtualHost)
	c.names("nothing that is new")
	c.quiet()
	l.apply(a)
	c.take(resource.VirtualHost)
	c.names("back", "a.test")
	c.quiet()
}

// TestNamesWaitForTheGateway: what the rows lead to has to be there, too.
func TestNamesWaitForTheGateway(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c, exit := l.named(), l.exitPod()
	l.apply(entry("default", "a", "a.test", httpPort))
	exit.take(resource.Cluster)
	exit.next(resource.VirtualHost)
	c.take(resource.VirtualHost)
	c.quiet()
	exit.ack(resource.VirtualHost)
	c.names("both have it", "a.test")

	l.apply(entry("default", "b", "b.test", httpPort))
	exit.take(resource.Cluster)
	exit.next(resource.VirtualHost)
	c.take(resource.VirtualHost)
	c.quiet()
	exit.stop()
	c.names("it is gone", "b.test")
}

// TestNamesWaitForGatewaysOfTheMeshOnly: what is somebody's own gateway holds up nobody's names.
func TestNamesWaitForGatewaysOfTheMeshOnly(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c := l.named()
	other := l.connect(&core.Node{
		Id: "router~10.0.0.9~mine.default~default.svc.cluster.local",
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"NAMESPACE": structpb.NewStringValue("default"),
			"LABELS": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"istio": structpb.NewStringValue("egressgateway"),
			}}),
		}},
	})
	other.ask(resource.VirtualHost)
	other.next(resource.VirtualHost)
	l.apply(entry("default", "a", "a.test", httpPort))
	c.take(resource.VirtualHost)
	c.names("without it", "a.test")
}

// TestSilentProxiesHoldNamesForAWhile: who says nothing, the pod's own Envoy or a gateway, is not waited for without end.
func TestSilentProxiesHoldNamesForAWhile(t *testing.T) {
	serve.SetNameTime(t, 20*time.Millisecond)
	l := newLab(t, everybody, inUse()...)
	c, silent, exit := l.named(), l.named(), l.exitPod()
	l.apply(entry("default", "a", "a.test", httpPort))
	exit.take(resource.Cluster)
	exit.next(resource.VirtualHost)
	c.take(resource.VirtualHost)
	silent.next(resource.VirtualHost)
	c.names("without the gateway", "a.test")
	silent.names("without its own Envoy", "a.test")

	serve.SetNameTime(t, time.Hour)
	l.apply(entry("default", "b", "b.test", httpPort))
	exit.take(resource.Cluster)
	c.take(resource.VirtualHost)
	c.names("the gateway is not waited for again", "b.test")
	exit.ack(resource.VirtualHost)
	exit.take(resource.VirtualHost)
	exit.quiet()
	l.apply(entry("default", "c", "c.test", httpPort))
	exit.take(resource.Cluster)
	exit.next(resource.VirtualHost)
	c.take(resource.VirtualHost)
	c.quiet()
	exit.ack(resource.VirtualHost)
	c.names("until it has spoken", "c.test")
}

// TestFirstNames: a pod that begins does not wait for names, since its Envoy may need them to begin; one that comes back
// does, and so does one without an Envoy not.
func TestFirstNames(t *testing.T) {
	l := newLab(t, everybody, append(inUse(), entry("default", "a", "a.test", httpPort))...)
	c := l.connect(node("app", "default"))
	c.ask(resource.Cluster)
	c.next(resource.Cluster)
	c.ask(resource.Name)
	held := c.takeAll(resource.Name).versions
	l.apply(entry("default", "b", "b.test", httpPort))

	back := l.connect(node("app", "default"))
	back.ask(resource.Cluster)
	back.next(resource.Cluster)
	back.send(&discovery.DeltaDiscoveryRequest{TypeUrl: resource.Name.URL(), InitialResourceVersions: held})
	back.quiet()
	back.ack(resource.Cluster)
	back.names("when Envoy has the rest", "b.test")

	alone := l.connect(node("app", "default"))
	alone.send(&discovery.DeltaDiscoveryRequest{TypeUrl: resource.Name.URL(), InitialResourceVersions: held})
	alone.names("without an Envoy", "b.test")
}
