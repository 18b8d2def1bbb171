package translate

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
	"github.com/sallyport/sallyport/xds/translate/inbound"
	"github.com/sallyport/sallyport/xds/translate/node"
)

// PodListeners makes the templates of listeners that are a pod's alone, on the proxy of its node: of one that PeerAuthentications,
// AuthorizationPolicies or Telemetries are about. They are made again when what they are made from differs, and once for all pods that have the same. Its
// methods may be called at the same time.
type PodListeners struct {
	mu   sync.Mutex
	made map[string]*podListeners   // by pod
	like map[string][]*podListeners // by their hint
	told map[string]time.Time       // pods whose clients are told to speak mutual TLS; or were, and until when that is told apart
}

// Told is how long a pod goes on telling mutual TLS apart when its clients are told to speak it no more: a waypoint that has left it may hear of that later than the pod's
// node, and nodes later than that (xds/serve/fronts.go). Without it the app would be given what it cannot read.
const Told = 6 * time.Second

type podListeners struct {
	from      podListenerInputs
	templates map[string][]byte
	users     int // pods
}

// podListenerInputs is what they are made from, all of it.
type podListenerInputs struct {
	inbound.Inputs
	policies authz.Set
	recorded string // what Telemetries say of its records
}

// Of gives a pod's, by their names; nil where it has what all pods have. They are others after a time, if nothing else changes until then, where that is said.
func (d *PodListeners) Of(s *registry.Snapshot, pod, namespace string, labels map[string]string) (templates map[string][]byte, after time.Duration) {
	told := resolve.ToldMutual(s, namespace, labels)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !told && !resolve.OnlyMutualSomewhere(s, namespace, labels) { // to where nothing else may come clients speak it unasked
		after = d.untold(pod)
	} else if until, known := d.told[pod]; !known || !until.IsZero() {
		if d.told == nil {
			d.told = map[string]time.Time{}
		}
		d.told[pod] = time.Time{}
	}
	return d.of(podListenerInputsOf(s, namespace, labels, told || after > 0), pod), after
}

// untold is how long a pod of whose clients none is told to speak mutual TLS tells it apart all the same. The lock is held.
func (d *PodListeners) untold(pod string) time.Duration {
	until, was := d.told[pod]
	if !was {
		return 0
	}
	if until.IsZero() {
		until = time.Now().Add(Told)
		d.told[pod] = until
	}
	left := time.Until(until)
	if left <= 0 {
		delete(d.told, pod)
	}
	return max(left, 0)
}

// of gives what is made from something for a pod. The lock is held.
func (d *PodListeners) of(from podListenerInputs, pod string) map[string][]byte {
	if from.Inbound.Mode == registry.Disable && len(from.Inbound.Ports) == 0 && len(from.policies) == 0 && from.recorded == "" {
		d.leave(pod)
		return nil
	}
	was := d.made[pod]
	if was != nil && reflect.DeepEqual(was.from, from) {
		return was.templates
	}
	now := d.find(from)
	now.users++
	d.leave(pod)
	d.made[pod] = now
	return now.templates
}

// find gives what is made from that, or makes it. The lock is held.
func (d *PodListeners) find(from podListenerInputs) *podListeners {
	if d.made == nil {
		d.made, d.like = map[string]*podListeners{}, map[string][]*podListeners{}
	}
	hint := from.hint()
	for _, other := range d.like[hint] {
		if reflect.DeepEqual(other.from, from) {
			return other
		}
	}
	one := &podListeners{from: from, templates: from.templates()}
	d.like[hint] = append(d.like[hint], one)
	return one
}

// leave takes a pod from what it had, which goes with the last one. The lock is held.
func (d *PodListeners) leave(pod string) {
	was := d.made[pod]
	if was == nil {
		return
	}
	delete(d.made, pod)
	if was.users--; was.users > 0 {
		return
	}
	hint := was.from.hint()
	d.like[hint] = slices.DeleteFunc(d.like[hint], func(o *podListeners) bool { return o == was })
	if len(d.like[hint]) == 0 {
		delete(d.like, hint)
	}
}

// hint is alike where all is alike, and mostly differs where something does.
func (d podListenerInputs) hint() string {
	b := fmt.Appendf(nil, "%v %v", d.Inbound.Mode, d.Inbound.Ports)
	for _, p := range d.policies {
		b = fmt.Appendf(b, " %s", p.Key)
	}
	return string(b)
}

// Forget is told of a pod that is gone.
func (d *PodListeners) Forget(pod string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave(pod)
	delete(d.told, pod)
}

// podListenerInputsOf finds what is for a pod whose clients were told to speak mutual TLS, or were not.
func podListenerInputsOf(s *registry.Snapshot, namespace string, labels map[string]string, told bool) podListenerInputs {
	recorded := s.Recorded(namespace, labels)
	d := podListenerInputs{inboundInputs(s, Class{Recorded: recorded}), s.AuthorizingInbound(namespace, labels), recorded}
	d.Inbound = resolve.InboundToldMutual(s, namespace, labels, told)
	return d
}

func (d podListenerInputs) templates() map[string][]byte {
	p := inbound.Pod{Inputs: d.Inputs}
	if p.Inbound.Authorized {
		judge := func(see authzfilter.Inputs) func(authz.Set) *envoy.OnMatch {
			return func(set authz.Set) *envoy.OnMatch { return authzfilter.Connections(set, see) }
		}
		p.Judge = authzfilter.Filter(d.policies, judge(atPod(d.Trust)))
		p.JudgeTunnels = authzfilter.Filter(d.policies, judge(atTunnel(d.Trust)))
	}
	out := map[string][]byte{}
	for _, l := range []*listenerv3.Listener{p.Listener(), p.Tunnel()} {
		out[l.Name] = envoy.Seal(resource.Listener, l.Name, node.Listener(l)).Value()
	}
	return out
}

// atTunnel is how what comes by HBONE is seen: as at a pod, but the port is the one that the tunnel asks for, and of the app's own TLS nobody
// knows anything.
func atTunnel(trust envoy.TrustDomains) authzfilter.Inputs {
	see, asked := atPod(trust), envoy.HeaderInput(":authority")
	see.Port = func(t authz.Term, values []string) *envoy.Predicate {
		return envoy.InputMatches(asked, t.Expression(values, nil))
	}
	return see
}
