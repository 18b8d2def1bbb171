package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
)

// end is where something goes in the mesh.
type end struct {
	asking                           // of whoever connects to the pods: the workload, a waypoint, or an ingress gateway
	front     *resolve.WaypointProxy // that; nil of others
	entry     *resolve.IngressTarget // likewise: the host as an ingress gateway has it
	untouched bool                   // TLS that an ingress gateway passes goes on as it is
	outside   bool                   // it is outside of the mesh: there are no pods to ask
	service   *registry.Service
	port      registry.Port
	subset    string
	shown     resolve.Attempt
}

// PodsVerdict is what pods say to what comes to them, all of them alike.
type PodsVerdict struct {
	Addresses []string
	Port      uint32 // their own
	Mutual    bool   // it comes by mutual TLS of the mesh
	Proxied   bool   // a proxy of the mesh stands before them, as far as their labels say; nobody asks anything where none does
	// Unknown says that nobody knows here what is said to it. Reason tells why.
	Unknown bool
	Verdict
}

// mostReached is how many endpoints of a host are asked.
const mostReached = 1000

// DecideThrough is Decide, and what the pods say to which it goes: where all of them refuse it, nobody gets it.
func DecideThrough(s *registry.Snapshot, w Workload, d Destination) (Verdict, []PodsVerdict) {
	return Decide(s, w, d).whole()
}

func (v Verdict) whole() (Verdict, []PodsVerdict) {
	if !v.Allowed || v.end == nil {
		return v, nil
	}
	v.tellUnanswered()
	if v.tellNodeLocal(); v.end.outside {
		return v, nil
	}
	all := v.end.reached()
	closed, unknown := 0, false
	for i := range all {
		if !all[i].Allowed {
			closed++
		}
		unknown = unknown || all[i].Unknown
	}
	switch {
	case closed == 0:
	case closed == len(all):
		v.Allowed, v.DecidedBy, v.Reason = false, all[0].DecidedBy, "a service of the mesh, whose pods refuse it: "+all[0].Reason
	default:
		v.Reason += ", of whose pods some refuse it"
	}
	if unknown {
		v.Reason += "; what pods say to it is not known here of all of them"
	}
	return v, all
}

// reached asks the pods, and puts together those that say the same.
func (e *end) reached() (out []PodsVerdict) {
	host, list := e.host(), e.endpoints()
	for i := range list[:min(len(list), mostReached)] {
		r := e.at(&host, &list[i])
		same := slices.IndexFunc(out, func(o PodsVerdict) bool {
			return o.Allowed == r.Allowed && o.DecidedBy == r.DecidedBy && o.Reason == r.Reason && o.Port == r.Port && o.Mutual == r.Mutual && o.Proxied == r.Proxied && o.Unknown == r.Unknown
		})
		if same < 0 {
			out = append(out, r)
		} else {
			out[same].Addresses = append(out[same].Addresses, list[i].Address)
		}
	}
	return out
}

// endpoints are those that may be connected to.
func (e *end) endpoints() []registry.Endpoint {
	list := e.snap.EndpointsOf(e.service)
	if e.front != nil {
		list = resolve.Connectable(registry.WaypointEndpoints(list), e.front.Refused())
	}
	if e.entry != nil {
		list = e.entry.Connectable(list)
	}
	far, local := e.host().Restrictions, e.nodeLocal()
	return slices.DeleteFunc(slices.Clone(e.part().Of(list)), func(to registry.Endpoint) bool {
		return !far.Leads(to) || to.PortOf(e.port) == 0 || to.Address == "" && !e.snap.Topology().Leads(to) || local && (to.Cluster != "" || to.Node == "")
	})
}

// host is the service as whoever connects to its pods has it.
func (e *end) host() resolve.SidecarHost {
	switch {
	case e.front != nil:
		return e.front.Reaching(e.service)
	case e.entry != nil:
		return resolve.SidecarHost{Service: e.service, Rule: e.entry.Rule, Restrictions: e.entry.Restrictions, MeshTLS: e.entry.MeshTLS}
	default:
		return e.Reached(e.service)
	}
}

// mutual says whether the pods are spoken to by mutual TLS of the mesh.
func (e *end) mutual(host *resolve.SidecarHost) resolve.Mutual {
	switch {
	case e.untouched:
		return resolve.MutualNever
	case e.entry != nil:
		return e.entry.Mutual(e.port)
	default:
		return host.Mutual(e.port)
	}
}

// wrapped says whether what goes to the pods is in TLS as a DestinationRule, or a BackendTLSPolicy, says, which is the app's own there.
func (e *end) wrapped(host *resolve.SidecarHost) (*registry.TLSSettings, bool) {
	tls := host.Rule.TLSFor(e.port.Number)
	return tls, !e.untouched && tls != nil && (tls.Mode == registry.TLSSimple || tls.Mode == registry.TLSMutual)
}

func (e *end) at(host *resolve.SidecarHost, to *registry.Endpoint) PodsVerdict {
	r := PodsVerdict{Addresses: []string{to.Address}, Port: to.PortOf(e.port), Proxied: to.Proxied || to.Fronted}
	r.Verdict = Verdict{Allowed: true, Path: PathInbound}
	switch {
	case to.Cluster != "":
		r.Unknown, r.Reason = true, "what its own cluster says is not known here"
		return r
	case e.byNode(to):
		r.Unknown, r.Reason = true, "what its node's proxy says is not known here: the pod, or its namespace, is ambient (label istio.io/dataplane-mode), and that proxy keeps what asks for mutual TLS and what denies connections"
		return r
	case !r.Proxied && e.mutual(host) == resolve.MutualAlways:
		r.Unknown, r.Mutual, r.Reason = true, true, "a DestinationRule has it spoken to by mutual TLS of the mesh, and no proxy that takes that is known to stand before it (label security.istio.io/tlsMode: istio)"
		return r
	case !r.Proxied:
		r.Reason = "no proxy of the mesh is known to stand before it (label security.istio.io/tlsMode: istio), so nobody asks"
		return r
	}
	switch e.mutual(host) {
	case resolve.MutualAlways:
		r.Mutual = true
	case resolve.MutualByEach:
		r.Mutual = to.Meshed(r.Port)
	}
	address, _ := netip.ParseAddr(to.Address)
	comes := InboundAttempt{
		Pod:  Workload{Namespace: e.service.Namespace, Labels: to.Labels, Address: address},
		Port: r.Port, Node: to.Fronted, Mutual: r.Mutual, From: e.workload.Address, Kind: e.shown.Kind, Request: e.shown.Request, SNI: e.shown.Hello.Name,
	}
	if r.Mutual {
		comes.Client, comes.SNI = ClientOf(e.snap, e.workload.Namespace, e.account()), resolve.SNI(e.port.Number, e.subset, e.service.Host)
	}
	if tls, is := e.wrapped(host); is && !r.Mutual {
		comes.Kind, comes.SNI = resolve.TLSConnections, tls.SNI
	}
	r.Verdict = DecideInbound(e.snap, comes)
	if e.entry != nil && r.Authorization.AddressUnknown {
		r.Reason = strings.TrimSuffix(r.Reason, addressUnknown) + "; a rule asks for the client's address, which is that of one of the gateway's pods"
	}
	if e.front != nil && r.Authorization.AddressUnknown {
		r.Reason = strings.TrimSuffix(r.Reason, addressUnknown) + "; a rule asks for the client's address, which is that of one of the waypoint's pods"
	}
	return r
}

// byNode says whether a pod that no waypoint stands before is in the mesh by its node's proxy: one whose labels tell of a proxy is where they say
// so themselves, and else has a sidecar.
func (e *end) byNode(to *registry.Endpoint) bool {
	ns := e.service.Namespace
	if e.snap.ToldMutual(to.Labels) {
		ns = "" // whose word does not count
	}
	return !to.Fronted && e.snap.Ambient(ns, to.Labels)
}

// ClientOf is the SPIFFE id of a service account.
func ClientOf(s *registry.Snapshot, ns, account string) string {
	return fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", s.Mesh.TrustDomain, ns, account)
}
