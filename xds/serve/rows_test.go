package serve_test

import (
	"slices"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/resource"
)

// byName is a sidecar whose agent asks for rows by name.
func byName(pod, ns string) *core.Node {
	n := node(pod, ns)
	n.Metadata.Fields[ondemand.FetchMetadata] = structpb.NewStringValue(ondemand.OnUse)
	n.Metadata.Fields[ondemand.NamedMetadata] = structpb.NewStringValue("true")
	return n
}

// TestRowsByName: who asks for rows by name is given those, by whatever domain, and hears of those; that others come and go costs it a bucket of the digest.
func TestRowsByName(t *testing.T) {
	l := newLab(t, everybody, entry("default", "a", "a.test", httpPort, tlsPort), entry("default", "b", "b.test", httpPort))
	c := l.connect(byName("app", "default"))
	c.ask(resource.Digest)
	set := &digest.Set{}
	follow := func(a answer) {
		t.Helper()
		for name, body := range a.values {
			if err := set.Put(name, body); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range a.removed {
			set.Remove(name)
		}
		if !set.Whole() {
			t.Fatal("the digest is not whole")
		}
	}
	follow(c.take(resource.Digest))
	if !set.May("443", "a.test") || !set.May("80", "b.test") || set.May("443", "b.test") || set.May("80", "c.test") {
		t.Error("the digest says something else than what there is")
	}
	c.ask(resource.VirtualHost, "80/a.test", "80/c.test")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/a.test"}) || !slices.Equal(a.removed, []string{"80/c.test"}) {
		t.Errorf("one that is there and one that is not: %+v", a)
	}
	l.apply(entry("default", "b", "b.test", tlsPort))
	follow(c.take(resource.Digest))
	c.quiet()
	l.apply(entry("default", "c", "c.test", httpPort))
	follow(c.take(resource.Digest))
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/c.test"}) {
		t.Errorf("what was asked for, and comes: %+v", a)
	}
	c.ask(resource.VirtualHost, "443/a.test")
	address := "443/"
	digest.Domains("443/a.test", c.take(resource.VirtualHost).values["443/a.test"], func(domain string) {
		if domain != "a.test" && address == "443/" {
			address += domain
		}
	})
	c.drop(resource.VirtualHost, "443/a.test")
	c.ask(resource.VirtualHost, address)
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"443/a.test"}) {
		t.Errorf("by its address %s: %+v", address, a)
	}
	l.remove(entry("default", "a", "a.test"), entry("default", "b", "b.test"), entry("default", "c", "c.test"))
	follow(c.take(resource.Digest))
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{address, "80/a.test", "80/c.test"}) || len(a.names()) > 0 {
		t.Errorf("gone: %+v", a)
	}
	c.quiet()
	l.apply(entry("default", "d", "d.test", httpPort))
	follow(c.take(resource.Digest))
	c.quiet()
	l.apply(entry("default", "a", "a.test", httpPort, tlsPort))
	follow(c.take(resource.Digest))
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"443/a.test", "80/a.test"}) || len(a.removed) > 0 {
		t.Errorf("back, by its name and its address: %+v", a)
	}
	c.quiet()
}

// TestPatternsRowsByName: with a pattern's row come those below it, also later.
func TestPatternsRowsByName(t *testing.T) {
	wild := entry("default", "wild", "*.w.test", httpPort)
	l := newLab(t, everybody, wild, entry("default", "a", "a.w.test", httpPort, tlsPort), entry("default", "far", "far.test", httpPort))
	c := l.connect(byName("app", "default"))
	c.ask(resource.VirtualHost, "80/*.w.test")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/*.w.test", "80/a.w.test"}) {
		t.Errorf("a pattern: %+v", a)
	}
	l.apply(entry("default", "b", "b.c.w.test", httpPort), entry("default", "far", "far.test", tlsPort))
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/b.c.w.test"}) {
		t.Errorf("what comes below it: %+v", a)
	}
	l.remove(entry("default", "a", "a.w.test"))
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/a.w.test"}) {
		t.Errorf("what goes: %+v", a)
	}
	c.drop(resource.VirtualHost, "80/*.w.test")
	c.quiet()
	l.apply(entry("default", "d", "d.w.test", httpPort))
	c.quiet()
}

// TestAllRowsAreTold: the answer to the question for all rows is known by a name that was asked for with it, also where nothing else is to be said.
func TestAllRowsAreTold(t *testing.T) {
	l := newLab(t, everybody, entry("default", "a", "a.test", httpPort))
	c := l.connect(byName("app", "default"))
	c.ask(resource.VirtualHost, "80/a.test", "80/"+ondemand.FirstRow, "443/"+ondemand.FirstRow)
	c.take(resource.VirtualHost)
	for _, name := range []string{ondemand.Echo + "1", ondemand.Echo + "2"} {
		c.ask(resource.VirtualHost, "*", name)
		if a := c.take(resource.VirtualHost); len(a.names()) > 0 || !slices.Equal(a.removed, []string{name}) {
			t.Errorf("all, with %s: %+v", name, a)
		}
		c.quiet()
		c.drop(resource.VirtualHost, "*", name)
		if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/a.test"}) {
			t.Errorf("one again: %+v", a)
		}
	}
	l.apply(entry("default", "b", "b.test", httpPort))
	c.quiet()
}

// TestRowsByNameAndAll: a client may go from one to the other, as an agent does when the mesh's settings change.
func TestRowsByNameAndAll(t *testing.T) {
	l := newLab(t, everybody, entry("default", "a", "a.test", httpPort), entry("default", "b", "b.test", httpPort))
	c := l.connect(byName("app", "default"))
	c.ask(resource.VirtualHost, "80/a.test")
	c.take(resource.VirtualHost)
	c.ask(resource.VirtualHost, "*")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/b.test"}) {
		t.Errorf("all, after one: %+v", a)
	}
	c.drop(resource.VirtualHost, "*")
	if a := c.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/a.test"}) {
		t.Errorf("one again: %+v", a)
	}
	l.apply(entry("default", "b", "b.test", tlsPort))
	c.quiet()
	l.apply(entry("default", "a", "a.test", tlsPort))
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/a.test"}) {
		t.Errorf("one, after all: %+v", a)
	}
}
