package kernel

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// TestNftAgrees: nft lists what a plan's text says, so the expressions and the words are the same rules.
func TestNftAgrees(t *testing.T) {
	n := newNode(t, true)
	for name, change := range map[string]func(*nodeguard.Options, *nodeguard.View){
		"default": nil,
		"no log":  func(o *nodeguard.Options, _ *nodeguard.View) { o.NoLog = true },
		"as is":   func(o *nodeguard.Options, _ *nodeguard.View) { o.AllowUnknown, o.AllowSpoofed = true, true },
		"adjacent": func(o *nodeguard.Options, _ *nodeguard.View) {
			o.Allow = prefixes("10.77.1.0/24", "10.77.2.0/23", "255.255.255.0/24", "fd77:0:0:1::/64", "ff00::/8")
		},
	} {
		p := plan(t, true, change)
		n.must(n.table.Replace(p))
		if diff := cmp.Diff(normal(p.Text()), normal(n.nft("list", "table", "inet", nodeguard.Table))); diff != "" {
			t.Errorf("%s: plan and nft's list:\n%s", name, diff)
		}
		if why, err := n.table.Differs(p); why != "" || err != nil {
			t.Errorf("%s: just written: %q, %v", name, why, err)
		}
		// The text is good for nft -f as well.
		file := t.TempDir() + "/plan.nft"
		writeFile(t, file, "delete table inet "+nodeguard.Table+"\n"+p.Text())
		n.nft("-f", file)
		if why, err := n.table.Differs(p); why != "" || err != nil {
			t.Errorf("%s: written by nft: %q, %v", name, why, err)
		}
	}
}

var spaces = regexp.MustCompile(`\s+`)

// normal takes out what nft lays out as it likes.
func normal(text string) []string {
	text = spaces.ReplaceAllString(text, " ")
	text = strings.ReplaceAll(text, "priority filter - 10", "priority -10")
	return strings.SplitAfter(text, ";")
}

func TestDiffers(t *testing.T) {
	n := newNode(t, true)
	p := plan(t, true, nil)
	check := func(want string) {
		t.Helper()
		if why, err := n.table.Differs(p); why != want || err != nil {
			t.Errorf("%q, %v, want %q", why, err, want)
		}
	}
	check("the table is gone")
	for call, want := range map[string]string{
		"add table inet sallyport_guard { flags dormant; }": "the table is switched off",
		"flush ruleset": "the table is gone",
		"flush chain inet sallyport_guard refuse":                                                "the chain refuse has other rules",
		"insert rule inet sallyport_guard forward accept":                                        "the chain forward has other rules",
		"delete element inet sallyport_guard guarded4 { 10.77.0.10 }":                            "the set guarded4 has other elements",
		"add element inet sallyport_guard networks4 { 203.0.113.0/24 }":                          "the set networks4 has other elements",
		"add element inet sallyport_guard open6 { fd77::66 }":                                    "the set open6 has other elements",
		"add table ip other; add chain ip other forward; add set ip other x { type ipv4_addr; }": "",
	} {
		n.must(n.table.Replace(p))
		check("")
		n.nft(call)
		check(want)
	}
	n.must(n.table.Replace(p))
	n.nft("add table ip other")
	for _, want := range []bool{true, false} {
		if there, err := n.table.Clean(); there != want || err != nil {
			t.Errorf("clean: %v, %v", there, err)
		}
	}
	check("the table is gone")
	if list := n.nft("list", "tables"); strings.TrimSpace(list) != "table ip other" {
		t.Errorf("after cleaning: %s", list)
	}
	if counts, err := n.table.Counts(); err != nil || len(counts.Named) != 0 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// TestChanges walks through views; after each the kernel holds the plan.
func TestChanges(t *testing.T) {
	n := newNode(t, true)
	many := func(count int) func(*nodeguard.Options, *nodeguard.View) {
		return func(o *nodeguard.Options, v *nodeguard.View) {
			a := netip.MustParseAddr("10.96.0.1")
			b := netip.MustParseAddr("fd96::1")
			for range count {
				v.Services = append(v.Services, a, b)
				a, b = a.Next(), b.Next()
			}
			o.Allow = prefixes("172.16.0.0/16")
			v.Nodes = append(v.Nodes, nodeguard.Node{Name: "there", PodNetworks: prefixes("10.77.1.0/24", "10.77.2.0/23")[count%2:]})
		}
	}
	have := plan(t, false, nil)
	n.must(n.table.Replace(have))
	for _, want := range []nodeguard.Plan{plan(t, true, nil), plan(t, true, many(5000)), plan(t, true, many(4999)), plan(t, false, many(1)), plan(t, true, nil)} {
		n.must(n.table.Change(nodeguard.Diff(have, want)))
		if why, err := n.table.Differs(want); why != "" || err != nil {
			t.Fatalf("%q, %v", why, err)
		}
		have = want
	}
	n.must(n.table.Change(nil))
	// What does not fit fails as a whole.
	gone := nodeguard.Diff(plan(t, true, many(3)), have)
	if err := n.table.Change(gone); err == nil {
		t.Error("elements were removed that are not there")
	}
	if why, err := n.table.Differs(have); why != "" || err != nil {
		t.Errorf("after a failure: %q, %v", why, err)
	}
	n.must(n.table.Replace(plan(t, true, many(5000))))
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}
