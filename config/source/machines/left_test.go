package machines

import (
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
)

// TestLeft: entries in an API server that nobody holds go after a while, and no others.
func TestLeft(t *testing.T) {
	g := group("shop", "db", "db", false)
	l := newLab(g)
	l.Replica, l.Alive = machine.Holder("istio-system", "me"), func(ns, pod string) bool { return ns == "istio-system" && pod == "other" }
	held := proxy("192.0.2.1")
	l.join(t, held)
	for address, notes := range map[string]map[string]string{
		"192.0.2.1": {"istio.io/workloadController": "sallyport/istio-system/me"},
		"192.0.2.2": {"istio.io/workloadController": "sallyport/istio-system/me"},
		"192.0.2.3": {"istio.io/workloadController": "sallyport/istio-system/other"},
		"192.0.2.4": {"istio.io/workloadController": "sallyport/istio-system/dead"},
		"192.0.2.5": {"istio.io/workloadController": "sallyport/istio-system/other", "istio.io/disconnectedAt": "2030-01-01T00:00:00Z"},
		"192.0.2.6": {"istio.io/workloadController": "sallyport/istio-system/dead"},
	} {
		o, err := machine.Entry(g, proxy(address))
		if err != nil {
			t.Fatal(err)
		}
		o.Origin = "cluster"
		for name, text := range notes {
			o.Annotations[name] = text
		}
		l.shelf.stands[o.Name] = ""
		l.Apply([]config.Change{{Key: o.Key, Object: o}})
	}
	l.after(Patience - time.Second)
	if len(l.shelf.stands) != 6 {
		t.Fatalf("%v: one went too early", l.shelf.stands)
	}
	l.join(t, proxy("192.0.2.6"))
	l.after(lookEvery)
	for _, gone := range []string{"db-192.0.2.2", "db-192.0.2.4", "db-192.0.2.5"} {
		if _, there := l.shelf.stands[gone]; there {
			t.Errorf("%s stays", gone)
		}
	}
	if len(l.shelf.stands) != 3 {
		t.Errorf("left: %v", l.shelf.stands)
	}
	if !l.Joins("shop", "db") || l.Joins("shop", "web") || l.Joins("bank", "db") {
		t.Error("whose tokens are good")
	}
}
