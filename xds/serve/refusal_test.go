package serve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/resource"
)

// holds waits until what is shown of a type is as given: what of it is refused, and why; nothing means in sync.
func (l *lab) holds(what string, t resource.Type, problem string, names ...string) {
	l.t.Helper()
	l.becomes(what, func() bool {
		p := l.cache.Proxies()[0]
		of := p.Types[t.URL()]
		return p.Synced == (problem == "") && of.Problem == problem && slices.Equal(of.Resources, names)
	})
}

func hosts(n int, more ...string) (out []*config.Object) {
	for i := range n {
		more = append(more, fmt.Sprintf("n%02d", i))
	}
	for _, name := range more {
		out = append(out, entry("default", name, name+".test", httpPort))
	}
	return out
}

// TestRefusalOutlivesOtherChanges: what is acknowledged later says nothing of what was refused, until that is replaced
// or gone.
func TestRefusalOutlivesOtherChanges(t *testing.T) {
	for name, mend := range map[string]func(*lab, *client){
		"replaced": func(l *lab, c *client) {
			l.apply(entry("default", "bad", "bad.test", httpPort, tlsPort))
			c.take(resource.VirtualHost)
			l.holds("a row more beside the refused one", resource.VirtualHost, "no such thing", "80/bad.test")
			bad := entry("default", "bad", "bad.test", httpPort)
			bad.Annotations = map[string]string{"egress.sallyport.io/gateway": "direct"}
			l.apply(bad)
			c.take(resource.VirtualHost)
		},
		"removed": func(l *lab, c *client) {
			l.remove(hosts(0, "bad")...)
			c.take(resource.VirtualHost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, everybody)
			c := l.connect(node("app", "default"))
			c.ask(resource.VirtualHost)
			c.take(resource.VirtualHost)
			l.apply(hosts(0, "bad")...)
			c.next(resource.VirtualHost)
			c.refuse(resource.VirtualHost, "no such thing")
			l.holds("the refusal", resource.VirtualHost, "no such thing", "80/bad.test")
			for _, o := range hosts(3) {
				l.apply(o)
				c.take(resource.VirtualHost)
				c.quiet()
				l.holds("the refusal, still", resource.VirtualHost, "no such thing", "80/bad.test")
			}
			mend(l, c)
			l.holds("in sync", resource.VirtualHost, "")
			c.quiet()
		})
	}
}

// TestRefusedTogether: of most types Envoy takes all of a response or nothing, so that good resources share a bad
// one's fate. They are sent again once the bad one is mended.
func TestRefusedTogether(t *testing.T) {
	l := newLab(t, everybody)
	c := l.connect(node("app", "default"))
	c.ask(resource.VirtualHost)
	c.take(resource.VirtualHost)
	l.apply(hosts(0, "old")...)
	c.take(resource.VirtualHost)
	l.apply(hosts(12, "bad")...)
	c.next(resource.VirtualHost)
	c.refuse(resource.VirtualHost, "no such thing")
	l.becomes("ten of them are named", func() bool {
		return len(l.cache.Proxies()[0].Types[resource.VirtualHost.URL()].Resources) == 10
	})
	l.apply(hosts(0, "other")...)
	c.take(resource.VirtualHost)
	c.quiet() // nothing was mended
	l.remove(hosts(0, "bad")...)
	if a := c.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/bad.test"}) {
		t.Fatalf("%+v", a)
	}
	a := c.next(resource.VirtualHost)
	if len(a.names()) != 12 || len(a.removed) > 0 || a.has("80/other.test") || a.has("80/old.test") {
		t.Fatalf("sent again: %+v", a)
	}
	c.refuse(resource.VirtualHost, "another thing")
	c.quiet() // not over and over
	if p := l.cache.Proxies()[0]; p.Synced || p.Types[resource.VirtualHost.URL()].Problem != "another thing" {
		t.Errorf("%+v", p)
	}
	l.remove(hosts(12)...)
	c.take(resource.VirtualHost)
	l.holds("in sync", resource.VirtualHost, "")
}

// TestRefusedCluster: Envoy takes the good ones of a response's clusters, and names the bad ones.
func TestRefusedCluster(t *testing.T) {
	l := newLab(t, everybody)
	c := l.connect(node("app", "default"))
	c.ask(resource.Cluster)
	c.take(resource.Cluster)
	l.apply(fixed("default", "one", "one.test", "192.0.2.1"), fixed("default", "two", "two.test", "192.0.2.1"))
	c.next(resource.Cluster)
	const why = "Error adding/updating cluster(s) outbound|443||two.test: no"
	c.refuse(resource.Cluster, why)
	l.holds("the bad one", resource.Cluster, why, "outbound|443||two.test")
	l.remove(fixed("default", "two", "two.test", "192.0.2.1"))
	c.take(resource.Cluster)
	l.holds("in sync", resource.Cluster, "")
	c.quiet()

	l.apply(fixed("default", "two", "two.test", "192.0.2.1"))
	c.next(resource.Cluster)
	c.refuse(resource.Cluster, "x...(truncated)")
	l.holds("it said too much", resource.Cluster, "x...(truncated)", "outbound|443||two.test")
	c.refuse(resource.Cluster, strings.Repeat("ü", 1<<16))
	l.holds("it goes on and on", resource.Cluster, strings.Repeat("ü", 2<<10)+"…", "outbound|443||two.test")
}

// TestRefusedAndUnsubscribed: what a client does not want any more cannot be missing.
func TestRefusedAndUnsubscribed(t *testing.T) {
	l := newLab(t, everybody, fixed("default", "one", "one.test", "192.0.2.1"), fixed("default", "two", "two.test", "192.0.2.1"))
	c := l.connect(node("app", "default"))
	c.ask(resource.Endpoints, "outbound|443||two.test")
	c.take(resource.Endpoints)
	c.ask(resource.Endpoints, "outbound|443||one.test")
	c.next(resource.Endpoints)
	c.refuse(resource.Endpoints, "where is that")
	l.holds("the refusal", resource.Endpoints, "where is that", "outbound|443||one.test")
	c.drop(resource.Endpoints, "outbound|443||one.test")
	c.quiet() // a change on its way while names change may be sent twice
	l.apply(fixed("default", "two", "two.test", "192.0.2.2"))
	c.take(resource.Endpoints)
	l.holds("in sync", resource.Endpoints, "")
}

// TestRefusalOfAnOldStream: of a state-of-the-world stream, only a request with the version that was sent accepts it,
// or a change back to what it kept.
func TestRefusalOfAnOldStream(t *testing.T) {
	l := newLab(t, everybody, fixed("default", "one", "one.test", "192.0.2.1"))
	c := l.connectOld(node("app", "default"))
	const name = "outbound|443||one.test"
	c.ask(resource.Endpoints, name)
	_, kept := c.next(resource.Endpoints)
	c.ask(resource.Endpoints, name)
	l.holds("in sync", resource.Endpoints, "")
	l.apply(fixed("default", "one", "one.test", "192.0.2.2"))
	c.next(resource.Endpoints)
	c.say(resource.Endpoints, kept, "where is that", name)
	l.holds("the refusal", resource.Endpoints, "where is that")
	c.say(resource.Endpoints, kept, "", name) // it asks with what it has, as after any change of its names
	c.next(resource.Endpoints)                // and is told once more
	l.holds("the refusal, still", resource.Endpoints, "where is that")
	c.say(resource.Endpoints, kept, "where is that", name)
	l.apply(fixed("default", "one", "one.test", "192.0.2.1"))
	l.holds("in sync again", resource.Endpoints, "")
}
