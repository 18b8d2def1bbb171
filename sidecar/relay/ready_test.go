package relay

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// nack refuses the oldest response in flight of the type.
func (b *bench) nack(url, reason string) {
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: url, ResponseNonce: b.kind(url).inflight[0].nonce, ErrorDetail: &statuspb.Status{Message: reason},
	})
}

// begun is a machine whose Envoy has its clusters and was sent a first set of listeners.
func begun(t *testing.T, names ...string) *bench {
	t.Helper()
	b := newBench(t, t.TempDir())
	b.listeners = []string{"virtualOutbound", "virtualInbound"}
	b.controllerOpen()
	b.subscribe(ClusterType)
	b.subscribe(ListenerType)
	b.controllerSays(ClusterType, "1", nil, res("c", "1"))
	b.ack(ClusterType)
	var all []*discoveryv3.Resource
	for _, name := range names {
		all = append(all, res(name, "1"))
	}
	b.controllerSays(ListenerType, "2", nil, all...)
	return b
}

func TestReadyWithBothListeners(t *testing.T) {
	b := begun(t, "virtualInbound", "virtualOutbound", "0.0.0.0_80")
	b.want("before Envoy's word", b.lacks(), "envoy has not accepted clusters and listeners yet")
	b.ack(ListenerType)
	b.want("with everything", b.lacks(), "")
	b.controllerSays(ListenerType, "3", nil, res("0.0.0.0_80", "2"), res("0.0.0.0_81", "1"))
	for len(b.kind(ListenerType).inflight) > 0 {
		b.nack(ListenerType, "no")
	}
	b.want("after a refused update", b.lacks(), "")
	b.envoyGone()
	b.want("without Envoy", b.lacks(), "envoy has not accepted clusters and listeners yet")
}

func TestNotReadyWithoutAListener(t *testing.T) {
	b := begun(t, "virtualInbound", "0.0.0.0_80")
	b.ack(ListenerType)
	b.want("without virtualOutbound", b.lacks(), `envoy has no listener "virtualOutbound"`)
}

// TestNotReadyWithARefusedListener: of a response that was refused, the good ones are sent again by themselves, and what
// is left counts.
func TestNotReadyWithARefusedListener(t *testing.T) {
	b := begun(t, "virtualInbound", "virtualOutbound", "0.0.0.0_15001")
	b.nack(ListenerType, "duplicate address")
	for k := b.kind(ListenerType); len(k.inflight) > 0; {
		if k.inflight[0].resources[len(k.inflight[0].resources)-1].GetName() == "0.0.0.0_15001" {
			b.nack(ListenerType, "duplicate address")
			continue
		}
		b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ListenerType, ResponseNonce: k.inflight[0].nonce})
		if lacks := b.lacks(); lacks == "" {
			t.Fatal("ready while listeners are tried one by one")
		}
	}
	b.want("with a refused one", b.lacks(), `envoy refused the listener "0.0.0.0_15001": duplicate address`)
	b.controllerSays(ListenerType, "4", []string{"0.0.0.0_15001"})
	b.ack(ListenerType)
	b.want("once it is taken back", b.lacks(), "")
}

// TestNotReadyWithoutVirtualListener: a duplicate may have taken the place of one that a pod cannot be without.
func TestNotReadyWithoutVirtualListener(t *testing.T) {
	b := begun(t, "virtualInbound", "0.0.0.0_15001")
	b.ack(ListenerType)
	b.controllerSays(ListenerType, "3", nil, res("virtualOutbound", "1"))
	b.nack(ListenerType, "duplicate address")
	b.want("refused", b.lacks(), `envoy has no listener "virtualOutbound": duplicate address`)
}
