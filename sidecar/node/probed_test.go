package node

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/xds/ambient"
)

// TestProbedUnderStrict: a pod that the kubelet could not come to is served once the agent can let it in, and says until then what for it waits.
func TestProbedUnderStrict(t *testing.T) {
	p, l := podsWith(t)
	r := p.remote[l.Key()]
	r.Probed, r.Unprobed = []uint16{8080}, "the PeerAuthentication shop/strict"
	p.remote[l.Key()] = r
	if _, _, end := p.differs(); len(end) != 1 {
		t.Fatalf("it is served: %+v", end)
	}
	if err := p.Check(l); err == nil || !strings.Contains(err.Error(), r.Unprobed) || !strings.Contains(err.Error(), "any other pod start on this node") {
		t.Errorf("it says: %v", err)
	}
	p.network.open = true
	if begin, _, _ := p.differs(); len(begin) != 1 {
		t.Errorf("it is not served: %+v", begin)
	}
}

// TestRulesFollow: what a pod's rules say of the kubelet and of QUIC follows what is told of it, and no listener does.
func TestRulesFollow(t *testing.T) {
	p, l := podsWith(t)
	s := p.served[l.Key()]
	s.ipv6 = true
	for _, c := range []struct {
		open    bool
		probed  []uint16
		quic    bool
		want    redirect.AmbientRules
		changes int
	}{
		{false, nil, false, redirect.AmbientRules{IPv6: true}, 0},
		{false, []uint16{80}, false, redirect.AmbientRules{IPv6: true}, 1},
		{true, []uint16{80}, false, redirect.AmbientRules{IPv6: true, Kubelet: true}, 0},
		{true, []uint16{80}, true, redirect.AmbientRules{IPv6: true, Kubelet: true, BlockQUIC: true}, 1},
		{true, nil, false, redirect.AmbientRules{IPv6: true}, 1},
	} {
		p.network.open = c.open
		r := p.remote[l.Key()]
		r.Probed, r.BlockQUIC = c.probed, c.quic
		p.remote[l.Key()] = r
		_, change, end := p.differs()
		if len(change) != c.changes || len(end) > 0 {
			t.Errorf("%+v: change %v, end %v", c, change, end)
		}
		if got := p.rulesFor(p.served[l.Key()]); got != c.want {
			t.Errorf("rules %+v, want %+v", got, c.want)
		}
	}
}

// TestProbedOf: whose ports the node lets the kubelet come to is the API server's word, and before it has one that of a network in which nothing has begun.
func TestProbedOf(t *testing.T) {
	s := &served{addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")}}
	r := ambient.Pod{Probed: []uint16{80, 90}}
	at := func(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }
	if got := probedOf(r, s); !slices.Equal(got, []netip.AddrPort{at("10.0.0.9:80"), at("10.0.0.9:90")}) {
		t.Errorf("before: %v", got)
	}
	if got := probedOf(r, nil); len(got) > 0 {
		t.Errorf("of one that nobody knows: %v", got)
	}
	r.Addresses = []string{"10.0.0.2", "fd00::2", "none"}
	if got := probedOf(r, s); !slices.Equal(got, []netip.AddrPort{at("10.0.0.2:80"), at("10.0.0.2:90"), at("[fd00::2]:80"), at("[fd00::2]:90")}) {
		t.Errorf("with addresses: %v", got)
	}
}

// TestAddedPorts: ports that come are said, and no others again; where one goes, all are.
func TestAddedPorts(t *testing.T) {
	at := func(ports ...uint16) (out []netip.AddrPort) {
		for _, p := range ports {
			out = append(out, netip.AddrPortFrom(netip.MustParseAddr("10.0.0.9"), p))
		}
		return out
	}
	for _, c := range []struct {
		to, ports, more []netip.AddrPort
		only            bool
	}{
		{nil, at(1), nil, false},
		{at(1, 3), at(1, 2, 3, 4), at(2, 4), true},
		{at(1, 3), at(2, 3), at(2), false},
		{at(1, 3), at(1), nil, false},
		{[]netip.AddrPort{}, at(1), at(1), true},
	} {
		if more, only := added(c.to, c.ports); !slices.Equal(more, c.more) || only != c.only {
			t.Errorf("%v to %v: %v %t", c.to, c.ports, more, only)
		}
	}
}
