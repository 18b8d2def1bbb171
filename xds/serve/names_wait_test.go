package serve_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
	nodewire "github.com/sallyport/sallyport/xds/wire"
)

// waiting is named, and its agent answers a name only when its Envoy has the row.
func (l *lab) waiting() *client {
	l.t.Helper()
	n := node("waits", "default")
	n.Metadata.Fields[nodewire.NamesWaitMetadata] = structpb.NewStringValue("true")
	c := l.connect(n)
	for _, t := range []resource.Type{resource.Cluster, resource.Listener, resource.VirtualHost, resource.Name} {
		c.ask(t)
		c.take(t)
	}
	return c
}

// TestNamesGoWithRows: an agent that waits for its Envoy is sent names behind their rows at once, and never before them.
func TestNamesGoWithRows(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c := l.waiting()
	l.apply(entry("default", "a", "a.test", httpPort))
	c.next(resource.VirtualHost)
	c.names("at once", "a.test")
	l.apply(entry("default", "b", "b.test", httpPort)) // whose row waits for the word about the one before
	c.quiet()
	c.ack(resource.VirtualHost)
	if a := c.next(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/b.test"}) {
		t.Fatalf("the next row: %+v", a)
	}
	c.names("behind it", "b.test")
	c.ack(resource.VirtualHost)
	c.quiet()
}

// TestNamesWaitForNewTables: about what leads Envoy on to ask for more the agent's word is not enough.
func TestNamesWaitForNewTables(t *testing.T) {
	l := newLab(t, everybody, inUse()...)
	c := l.waiting()
	l.apply(entry("default", "odd", "odd.test", oddPort))
	c.take(resource.Cluster)
	c.next(resource.Listener)
	c.ask(resource.Route, "8080")
	c.ack(resource.Listener)
	c.take(resource.VirtualHost)
	c.next(resource.Route)
	c.next(resource.VirtualHost)
	c.quiet()
	c.ack(resource.Route)
	c.names("behind the table", "odd.test")
}

// TestNamesGoWithRowsBehindTheGateway: a gateway that says at once that it has what rows lead to holds up nothing; one that does not holds up names alone.
func TestNamesGoWithRowsBehindTheGateway(t *testing.T) {
	serve.SetExitMoment(t, patience)
	l := newLab(t, everybody, inUse()...)
	c, exit := l.waiting(), l.exitPod()
	published := make(chan struct{})
	go func() { defer close(published); l.apply(entry("default", "a", "a.test", httpPort)) }()
	exit.take(resource.Cluster)
	exit.next(resource.VirtualHost)
	c.quiet()
	exit.ack(resource.VirtualHost)
	c.next(resource.VirtualHost)
	c.names("when the gateway has it", "a.test")
	c.ack(resource.VirtualHost)
	<-published

	serve.SetExitMoment(t, time.Millisecond)
	l.apply(entry("default", "b", "b.test", httpPort))
	exit.take(resource.Cluster)
	exit.next(resource.VirtualHost)
	c.next(resource.VirtualHost)
	c.quiet()
	exit.ack(resource.VirtualHost)
	c.names("when the gateway has it", "b.test")
	c.ack(resource.VirtualHost)

	c.quiet() // what it acknowledged was heard
	serve.SetExitMoment(t, patience)
	l.remove(entry("default", "b", "b.test", httpPort)) // which waits for nobody
	c.take(resource.Name)
	c.take(resource.VirtualHost)
	c.quiet()
}
