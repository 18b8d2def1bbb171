package dnsproxy

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/dnsproxy/name"
)

// TestNamesOfOneNamespace: clients of a namespace are answered by its own names where there are some, and nobody else is.
func TestNamesOfOneNamespace(t *testing.T) {
	table := newTable()
	own := func(n name.Name) name.Name { n.Namespace = "shop"; return n }
	if err := table.Apply([]name.Name{
		named("both.test", 0, "240.240.0.1"), own(named("both.test", 0, "240.240.0.2")),
		own(named("own.test", 0, "192.0.2.1")), own(name.Name{Host: "hidden.test"}), aliased(named("hidden.test", 0, "240.240.0.3"), "other.name"),
		named("*.wide.test", 0, "240.240.0.4"), own(named("*.a.wide.test", 0, "240.240.0.5")), named("x.a.wide.test", 0, "240.240.0.6"), named("*.b.a.wide.test", 0, "240.240.0.7"),
	}, nil); err != nil {
		t.Fatal(err)
	}
	answer := func(namespace, q string) string {
		l := table.state.Load().to(namespace).find(wireName(q))
		if l == nil {
			return "unknown"
		}
		return fmt.Sprint(l.addrs)
	}
	want := func(q, all, shop string) {
		t.Helper()
		if a, b, c := answer("", q), answer("bank", q), answer("shop", q); a != all || b != all || c != shop {
			t.Errorf("%s: to all %s, to bank %s, want %s; to shop %s, want %s", q, a, b, all, c, shop)
		}
	}
	want("both.test", "[240.240.0.1]", "[240.240.0.2]")
	want("own.test", "unknown", "[192.0.2.1]")
	want("hidden.test", "[240.240.0.3]", "[]")
	want("other.name", "[240.240.0.3]", "[]")
	want("y.wide.test", "[240.240.0.4]", "[240.240.0.4]")
	want("y.a.wide.test", "[240.240.0.4]", "[240.240.0.5]")
	want("x.a.wide.test", "[240.240.0.6]", "[240.240.0.6]")
	want("y.b.a.wide.test", "[240.240.0.7]", "[240.240.0.7]")
	if l := table.state.Load().to("shop").holder(netip.MustParseAddr("192.0.2.1")); l == nil {
		t.Error("shop does not know whose its own address is")
	}
	if err := table.Apply(nil, []string{"shop/both.test", "shop/own.test", "shop/hidden.test", "shop/*.a.wide.test"}); err != nil {
		t.Fatal(err)
	}
	want("both.test", "[240.240.0.1]", "[240.240.0.1]")
	want("own.test", "unknown", "unknown")
	if n := len(table.state.Load().own); n != 0 {
		t.Errorf("%d namespaces are kept that have no names", n)
	}
}
