package gatewayapi

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// TestChainsAreSharedOut: as many listeners of ListenerSets have a filter chain as there may be, and of each namespace some, whatever others have.
func TestChainsAreSharedOut(t *testing.T) {
	taken := newTaken(4)
	add := func(ns, host string, passes bool) bool {
		l := Listener{Name: host, Host: host, Port: 443, Protocol: gatewayv1.TLSProtocolType, Passes: passes, Set: config.Key{Kind: config.KindListenerSet, Namespace: ns, Name: "s"}}
		if !passes {
			l.Protocol, l.Certificates = gatewayv1.HTTPSProtocolType, make([]types.NamespacedName, 1)
		}
		l.Conflict = taken.room(&l)
		taken.add(&l)
		return !l.Conflict.Is()
	}
	const most = MostSetChains
	for i := range most + 10 {
		if got := add("b", fmt.Sprintf("b%d.test", i), true); got != (i < most) {
			t.Fatalf("b's %d. counts: %v", i, got)
		}
	}
	for _, ns := range []string{"a", "c"} {
		for i := range AlwaysSetChains + 3 {
			if got := add(ns, fmt.Sprintf("%s%d.test", ns, i), true); got != (i < AlwaysSetChains) {
				t.Errorf("%s's %d. counts: %v", ns, i, got)
			}
		}
	}

	// Those that come to be found by name cost none any more, and leave room for others.
	taken = newTaken(4)
	for i := range MostChains + 1 {
		add("b", fmt.Sprintf("b%d.test", i), false)
	}
	if taken.inAll != 0 || taken.chains["b"] != 0 {
		t.Errorf("those that are found by name have %d chains, %v", taken.inAll, taken.chains)
	}
	for i := range most {
		add("c", fmt.Sprintf("c%d.test", i), true)
	}
	if !add("b", "*.b.test", true) || add("c", "x.c.test", true) {
		t.Error("b has no chain though it has none yet, or c one more than there may be")
	}
}
