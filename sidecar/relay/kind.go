package relay

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/sallyport/sallyport/sidecar/relay/state"
)

// The types whose order matters: a cluster before its endpoints, a listener after both, and then what its filters hold, its routes last.
const (
	typeURLPrefix = "type.googleapis.com/"
	ClusterType   = typeURLPrefix + "envoy.config.cluster.v3.Cluster"
	EndpointType  = typeURLPrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	ExtensionType = typeURLPrefix + "envoy.config.core.v3.TypedExtensionConfig"
	ListenerType  = typeURLPrefix + "envoy.config.listener.v3.Listener"
	ScopeType     = typeURLPrefix + "envoy.config.route.v3.ScopedRouteConfiguration"
	RouteType     = typeURLPrefix + "envoy.config.route.v3.RouteConfiguration"
	VirtualHost   = typeURLPrefix + "envoy.config.route.v3.VirtualHost"
)

var order = []string{ClusterType, EndpointType, ListenerType, ExtensionType, ScopeType, RouteType, VirtualHost}

const wildcard = "*"

// kind is what the relay knows about one resource type.
type kind struct {
	url   string
	table *state.Table // what was accepted, now or in an earlier life
	watch *Watch       // set if the agent itself follows the type; Envoy then cannot

	// The subscriptions: Envoy's of this session, or the agent's.
	subscribed bool // the first request for the type has come
	all        bool // wildcard
	names      map[string]struct{}
	byName     map[string]struct{} // what the controller is asked for, of rows in use, instead of what Envoy subscribes to; nil where it is that

	late     bool              // it has waited for its first answer for half of Config.Grace
	answered bool              // something was sent in this session
	accepted bool              // something was acknowledged in this session
	has      map[string]string // name → version that Envoy holds or is being sent
	inflight []*job            // in the order sent
	left     map[string]bool   // unsubscribed names whose resources go at the second purge (false → true)

	asked bool // the controller's stream knows the subscription

	held []*heldBack // of a watch that comes last, in the order in which they came

	rejected map[string]Rejection
}

// job is one response to Envoy, until Envoy's word about it.
type job struct {
	nonce     string
	upstream  string // nonce of the controller's response that it carries; "" if there is none to acknowledge
	resources []*discoveryv3.Resource
	removed   []string
	released  []string // removed from Envoy only: they are not in use
	before    []string // versions that Envoy had before, one for each resource
	size      int      // bytes
	came      uint64   // its place among all that the controller said
}

// Rejection is a resource version that Envoy refused.
type Rejection struct {
	Version string `json:"version"`
	Reason  string `json:"reason"`
}

// maxRejections bounds what is remembered, and the search for the bad resources of one type: a controller gone
// wrong must not make the relay send everything one by one.
const maxRejections = 64

func (k *kind) refuse(r *discoveryv3.Resource, reason string) {
	if len(k.rejected) < maxRejections {
		k.rejected[r.GetName()] = Rejection{Version: r.GetVersion(), Reason: reason}
	}
}

func (k *kind) reset() {
	k.subscribed, k.all, k.names = false, false, map[string]struct{}{}
	k.late, k.answered, k.accepted = false, false, false
	k.has, k.inflight, k.left = map[string]string{}, nil, map[string]bool{}
}

// wants tells whether a resource is subscribed to.
func (k *kind) wants(name string, aliases ...string) bool {
	if k.all {
		return true
	}
	if _, ok := k.names[name]; ok {
		return true
	}
	return slices.ContainsFunc(aliases, func(alias string) bool {
		_, ok := k.names[alias]
		return ok
	})
}

// subscribe changes the subscriptions by one request. An empty first request is a wildcard (xDS protocol, "How the
// client specifies what resources to return").
func (k *kind) subscribe(add, drop []string) {
	if !k.subscribed && len(add) == 0 {
		k.all = true
	}
	k.subscribed = true
	for _, name := range add {
		delete(k.left, name)
		if name == wildcard {
			k.all = true
			continue
		}
		k.names[name] = struct{}{}
	}
	for _, name := range drop {
		if name == wildcard {
			k.all = false
			continue
		}
		delete(k.names, name)
		if !k.all {
			delete(k.has, name)
			k.left[name] = false
		}
	}
}

// request is the first request for the type on a new stream to the controller, with all subscriptions and the
// versions that are held. It is nil if nothing is subscribed.
func (k *kind) request() *discoveryv3.DeltaDiscoveryRequest {
	names, all := k.names, k.all
	if k.byName != nil {
		names, all = k.byName, false
	}
	if !k.subscribed || !all && len(names) == 0 {
		return nil
	}
	out := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.url, InitialResourceVersions: map[string]string{}}
	for name := range names {
		out.ResourceNamesSubscribe = append(out.ResourceNamesSubscribe, name)
	}
	slices.Sort(out.ResourceNamesSubscribe)
	if all && len(names) > 0 {
		out.ResourceNamesSubscribe = append([]string{wildcard}, out.ResourceNamesSubscribe...)
	}
	for name, version := range k.table.Versions() {
		if _, named := names[name]; named || all {
			out.InitialResourceVersions[name] = version
		}
	}
	for name := range k.has { // Envoy holds what we have no body for: let it be sent again, or removed
		if _, ok := out.InitialResourceVersions[name]; !ok {
			out.InitialResourceVersions[name] = ""
		}
	}
	return out
}

// later tells whether a response sent after job i carries the name too.
func (k *kind) later(i int, name string) bool {
	for _, j := range k.inflight[i+1:] {
		if slices.Contains(j.removed, name) || slices.Contains(j.released, name) || slices.ContainsFunc(j.resources, func(r *discoveryv3.Resource) bool { return r.GetName() == name }) {
			return true
		}
	}
	return false
}

// answer is an ACK or, with a reason, a NACK to the controller.
func (k *kind) answer(nonce string, reason *statuspb.Status) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.url, ResponseNonce: nonce, ErrorDetail: reason}
}
