package relay

import (
	"maps"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// nameBench is a machine whose agent follows names, and has the first of them.
type nameBench struct {
	*bench
	held map[string]string
}

const names = "type.googleapis.com/test.Name"

func newNameBench(t *testing.T) *nameBench {
	t.Helper()
	n := &nameBench{held: map[string]string{}}
	n.bench = newBench(t, t.TempDir(), Watch{TypeURL: names, Last: true, Apply: func(changed []*discoveryv3.Resource, removed []string) map[string]error {
		for _, r := range changed {
			n.held[r.GetName()] = r.GetVersion()
		}
		for _, name := range removed {
			delete(n.held, name)
		}
		return nil
	}})
	n.subscribe(VirtualHost)
	n.controllerOpen()
	n.controllerSays(VirtualHost, "v0", nil, res("80/old", "1"))
	n.controllerSays(names, "n0", nil, res("old", "1"))
	n.answers("the first ones do not wait", "old@1")
	n.ack(VirtualHost)
	n.sent()
	n.told()
	return n
}

func (n *nameBench) answers(what string, want ...string) {
	n.t.Helper()
	var got []string
	for _, name := range slices.Sorted(maps.Keys(n.held)) {
		got = append(got, name+"@"+n.held[name])
	}
	n.want(what, got, want)
}

func TestNamesWaitForEnvoysWord(t *testing.T) {
	n := newNameBench(t)
	n.controllerSays(VirtualHost, "v1", nil, res("80/a", "1"))
	n.controllerSays(names, "n1", nil, res("a", "1"))
	n.answers("Envoy has not said anything", "old@1")
	n.want("neither has the agent", n.told(), []string(nil))
	n.controllerSays(VirtualHost, "v2", nil, res("80/b", "1"))
	n.controllerSays(names, "n2", nil, res("b", "1"))
	first := n.kind(VirtualHost).inflight[0].nonce
	n.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: VirtualHost, ResponseNonce: first})
	n.answers("what came later is not waited for", "a@1", "old@1")
	n.want("acknowledged", n.told(), []string{"VirtualHost ack v1", "Name ack n1"})
	n.ack(VirtualHost)
	n.answers("all", "a@1", "b@1", "old@1")

	n.controllerSays(VirtualHost, "v3", []string{"80/a"})
	n.controllerSays(names, "n3", []string{"a"})
	n.answers("what is gone does not wait", "b@1", "old@1")
}

// TestNamesWaitForTheGoodHalf: of what Envoy refused together with something else.
func TestNamesWaitForTheGoodHalf(t *testing.T) {
	n := newNameBench(t)
	n.controllerSays(VirtualHost, "v1", nil, res("80/a", "1"), res("80/bad", "1"))
	refuse := func(nonce string) {
		n.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: VirtualHost, ResponseNonce: nonce, ErrorDetail: &statuspb.Status{Message: "no"}})
	}
	refuse(n.kind(VirtualHost).inflight[0].nonce)
	n.want("the controller knows", n.told(), []string{"VirtualHost nack v1"})
	n.controllerSays(names, "n1", nil, res("a", "1"), res("bad", "1"))
	n.answers("Envoy has neither", "old@1")
	for k := n.kind(VirtualHost); len(k.inflight) > 0; {
		if j := k.inflight[0]; strings.HasSuffix(j.resources[0].GetName(), "bad") {
			refuse(j.nonce)
		} else {
			n.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: VirtualHost, ResponseNonce: j.nonce})
		}
	}
	n.answers("it has said what it takes", "a@1", "bad@1", "old@1")
}

func TestNamesWaitNoLonger(t *testing.T) {
	begin := func(t *testing.T) *nameBench {
		n := newNameBench(t)
		n.controllerSays(VirtualHost, "v1", nil, res("80/a", "1"))
		n.controllerSays(names, "n1", nil, res("a", "1"))
		n.answers("waits", "old@1")
		n.want("waits", n.holding(), true)
		return n
	}
	t.Run("Envoy is silent", func(t *testing.T) {
		n := begin(t)
		n.waitNoLonger()
		n.answers("goes on", "a@1", "old@1")
		n.want("acknowledged", n.told(), []string{"Name ack n1"})
		n.want("nothing waits", n.holding(), false)
	})
	t.Run("Envoy has gone", func(t *testing.T) {
		n := begin(t)
		n.envoyGone()
		n.answers("goes on", "a@1", "old@1")
	})
	t.Run("the controller has gone", func(t *testing.T) {
		n := begin(t)
		n.controllerGone()
		n.answers("Envoy is still there", "old@1")
		n.controllerOpen()
		n.told()
		n.controllerSays(names, "m1", nil, res("a", "1"))
		n.ack(VirtualHost)
		n.answers("goes on", "a@1", "old@1")
		n.want("what the old stream sent is not acknowledged on the new one", n.told(), []string{"Name ack m1"})
	})
}
