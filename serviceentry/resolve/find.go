package resolve

import (
	"cmp"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Find gives the registration that a destination leads to, and what the workload's proxy sees of it: by name where the protocol
// shows one and the proxy reads it, by address otherwise. nil where nobody registered it; a registration without the port is what
// holds a name that then is nobody's.
func (a Sidecar) Find(d Destination) (*registry.Service, Attempt) {
	seen := a.shown(d)
	svc, x := a.lookUp(seen)
	x.Request, x.Hello = RequestOf(d, x), helloOf(d)
	if svc == nil {
		return nil, x
	}
	if p, _ := svc.Port(d.Port); p.Protocol == registry.UDP {
		return nil, x // proxies take none
	}
	return svc, x
}

// RequestOf is the request, or the connection, that a destination stands for: GET, where nothing else is said.
func RequestOf(d Destination, x Attempt) route.Request {
	r := route.Request{Method: cmp.Or(d.Method, "GET"), Scheme: "http", Authority: d.Host, Path: cmp.Or(d.Path, "/"), Headers: d.Headers, SNI: x.Name, Dialled: x.Address, Unknown: d.Unknown}
	if d.Port != 80 && x.Kind == Requests {
		r.Authority = net.JoinHostPort(d.Host, strconv.FormatUint(uint64(d.Port), 10))
	}
	return r
}

func (a Sidecar) lookUp(d Destination) (*registry.Service, Attempt) {
	by, ip, literal := a.address(d)
	switch {
	case d.Scheme == TCP || a.unread(ip, d.Port):
		return a.byAddress(ip, d.Port), Attempt{Kind: Connections, Address: ip}
	case d.Scheme == HTTP && literal:
		return a.byAddress(ip, d.Port), Attempt{Kind: Requests, Name: d.Host}
	case d.Scheme == HTTP:
		return a.byName(by, d.Port), Attempt{Kind: Requests, Name: d.Host}
	case literal: // TLS to an address sends no name
		return a.byAddressTLS(ip, d.Port), Attempt{Kind: TLSConnections, Again: true, Address: ip}
	}
	named := a.byName(by, d.Port)
	if has(named, d.Port) {
		return named, Attempt{Kind: TLSConnections, Name: d.Host, Address: ip}
	}
	if svc := a.byAddressTLS(ip, d.Port); svc != nil {
		return svc, Attempt{Kind: TLSConnections, Name: d.Host, Again: true, Address: ip}
	}
	return named, Attempt{Kind: TLSConnections, Name: d.Host, Address: ip}
}

// helloOf is what a destination's TLS begins with. TLS to an address sends no name.
func helloOf(d Destination) ClientHello {
	h := ClientHello{TLS: d.Scheme.IsTLS()}
	if _, is := host.Addr(d.Host); h.TLS && !is {
		h.Name = d.Host
	}
	return h
}

// known is a name, and what a workload knows by it.
type known struct {
	name  string
	exact *registry.Service // whose host it is; nil where nobody's that the workload sees
	full  string            // of the Service that it is short for; "" where it is for none
}

func (a Sidecar) known(name string) known {
	return known{name, a.Visible(name), a.kubernetesName(name)}
}

// address is the one that a workload connects to, as far as it is known, and says whether the destination is an address itself. Of a name it gives
// what is known by it.
func (a Sidecar) address(d Destination) (by known, ip netip.Addr, literal bool) {
	if ip, is := host.Addr(d.Host); is {
		return by, ip, true
	}
	by = a.known(d.Host)
	if d.Dialled.IsValid() {
		return by, d.Dialled, false
	}
	return by, a.resolved(by), false
}

// unread says whether an address is in a range that somebody wrote for a TCP port: what goes there goes by its address, whatever it is.
func (a Sidecar) unread(ip netip.Addr, port uint32) bool {
	svc := a.snap.MatchRange(ip, port, a.Namespace, a.scope)
	if svc == nil {
		return false
	}
	p, _ := svc.Port(port)
	return p.Protocol != registry.TLS
}

// byAddress finds what an address leads to, for all but TLS. In a TLS service's range only TLS is the service's.
func (a Sidecar) byAddress(ip netip.Addr, port uint32) *registry.Service {
	svc := a.snap.MatchAddress(ip, port, a.Namespace, a.scope)
	if svc == nil || host.MadeUp(ip) || svc.WroteSingle(ip) {
		return svc
	}
	if p, _ := svc.Port(port); p.Protocol == registry.TLS {
		return nil
	}
	return svc
}

// byAddressTLS is the same for TLS without a name. A TLS service's range is asked with the names, before addresses are.
func (a Sidecar) byAddressTLS(ip netip.Addr, port uint32) *registry.Service {
	if ranged := a.snap.MatchRange(ip, port, a.Namespace, a.scope); ranged != nil {
		if p, _ := ranged.Port(port); p.Protocol == registry.TLS {
			return ranged
		}
	}
	return a.snap.MatchAddress(ip, port, a.Namespace, a.scope)
}

// byName finds what a name leads to: the host of this name; where there is none, the Service that it is short for, or what that
// is another name of; else the longest pattern, of an entry or of the pods of a headless Service. A host without the port is what
// keeps the name from another namespace's pattern.
func (a Sidecar) byName(by known, port uint32) *registry.Service {
	if has(by.exact, port) {
		return by.exact
	}
	if by.exact == nil { // else it has the name, on all ports
		for name := range a.otherNames(by) {
			if svc := a.Visible(name); has(svc, port) {
				return svc
			}
		}
	}
	if by.exact != nil && slices.Contains(a.snap.Shut(by.exact, a.Namespace, a.scope), port) {
		return by.exact
	}
	pods, tail := a.podsOf(by.name, port)
	pattern := a.snap.Match(by.name, port, a.Namespace, a.scope)
	if pods == nil || (pattern != nil && len(pattern.Host) > len("*.")+len(tail)) {
		return pattern
	}
	return pods
}

func has(svc *registry.Service, port uint32) bool {
	if svc == nil {
		return false
	}
	_, ok := svc.Port(port)
	return ok
}

// otherNames goes through the hosts that a name means where nobody registered it itself, in order: the Service that it is short
// for, and what those are other names of. What entries register has no short names.
func (a Sidecar) otherNames(by known) iter.Seq[string] {
	return func(yield func(string) bool) {
		if by.full != "" {
			if svc := a.Visible(by.full); svc != nil && svc.Source.Kind == config.KindService && !yield(by.full) {
				return
			}
		}
		for _, name := range [...]string{by.name, by.full} {
			if target := a.snap.Aliased(name, a.Namespace, a.scope); target != "" && !yield(target) {
				return
			}
		}
	}
}

// podsOf finds the headless Service that has pods of a name, the longest first, and the part of the name that is the Service's.
// A pattern that somebody registered for the same names has them.
func (a Sidecar) podsOf(host string, port uint32) (svc *registry.Service, tail string) {
	for _, rest, ok := strings.Cut(host, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
		if svc := a.headless(rest); has(svc, port) && a.Visible("*."+rest) == nil {
			return svc, rest
		}
	}
	return nil, ""
}

// headless is the Service of that kind that is called so, in full or shorter; nil where none is.
func (a Sidecar) headless(name string) *registry.Service {
	if full := a.fullName(name); full != "" {
		if svc := a.Visible(full); svc != nil && svc.Headless() {
			return svc
		}
	}
	return nil
}

// shown is the destination as the proxy sees it: on ports where it does not read, everything is TCP.
func (a Sidecar) shown(d Destination) Destination {
	if d.Scheme != TCP && !a.snap.Readable(d.Port, a.Namespace, a.scope) {
		d.Scheme = TCP
	}
	return d
}

// kubernetesName completes what workloads call a Kubernetes service: "web", "web.default", "web.default.svc". It is
// "" for other names, and where nothing is called so.
func (a Sidecar) kubernetesName(host string) string {
	name, rest, two := strings.Cut(host, ".")
	if !two {
		return a.snap.FullName(registry.Ref{Namespace: a.Namespace, Name: host})
	}
	ns, tail, more := strings.Cut(rest, ".")
	if more && tail != "svc" {
		return ""
	}
	return a.snap.FullName(registry.Ref{Namespace: ns, Name: name})
}

// fullName is the same for what may be a full name itself.
func (a Sidecar) fullName(host string) string {
	if _, full := registry.RefOf(host); full {
		return host
	}
	return a.kubernetesName(host)
}

// Resolved is what the workload's DNS answers for a name that is registered: the address made up for it, or the
// first that was written down. It is the zero Addr where the answer comes from outside.
func (a Sidecar) Resolved(name string) netip.Addr { return a.resolved(a.known(name)) }

func (a Sidecar) resolved(by known) netip.Addr {
	if ip := answered(by.exact); ip.IsValid() {
		return ip
	}
	for other := range a.otherNames(by) {
		if ip := answered(a.Visible(other)); ip.IsValid() {
			return ip
		}
	}
	if by.full != "" {
		if ip := answered(a.Visible(by.full)); ip.IsValid() {
			return ip // resolvers complete names, whoever registered what they then find
		}
	}
	for _, host := range [...]string{by.name, by.full} { // the cluster's DNS knows Services whoever sees them, and the pods of headless ones
		if svc := a.service(a.snap.AliasEnd(host)); svc != nil {
			return answered(svc)
		}
	}
	for _, rest, ok := strings.Cut(by.name, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
		if svc := a.service(a.fullName(rest)); svc != nil && svc.Headless() {
			return answered(svc)
		}
	}
	return netip.Addr{}
}

// Completed is the full name of the Service that a name is short for, whoever sees it; the name itself where it is for none.
func (a Sidecar) Completed(name string) string {
	if full := a.kubernetesName(name); a.Visible(name) == nil && a.service(full) != nil {
		return full
	}
	return name
}

// IsService says whether a full name is a Service's, whoever sees it.
func (a Sidecar) IsService(host string) bool { return a.service(host) != nil }

// service is the Service of a full name, whoever sees it.
func (a Sidecar) service(host string) *registry.Service {
	if host == "" {
		return nil
	}
	for _, svc := range a.snap.Services(host) {
		if svc.Source.Kind == config.KindService {
			return svc
		}
	}
	return nil
}

// answered is the first address that a host has of its own.
func answered(svc *registry.Service) netip.Addr {
	if svc == nil {
		return netip.Addr{}
	}
	if svc.MadeUp != 0 {
		return svc.VIP4()
	}
	for _, address := range svc.Addresses {
		if address.IsSingleIP() {
			return address.Addr()
		}
	}
	return netip.Addr{}
}

// Named is the entry by which the workload's DNS knows a name: of this host, of one that it is another name of, or of a pattern that covers
// it. nil is for names that only others may know.
func (a Sidecar) Named(name string) *registry.Service {
	is := func(host string) *registry.Service {
		if svc := a.Visible(host); svc != nil && svc.Source.Kind != config.KindService {
			return svc
		}
		return nil
	}
	if svc := is(name); svc != nil {
		return svc
	}
	if svc := is(a.snap.Aliased(name, a.Namespace, a.scope)); svc != nil && answered(svc).IsValid() {
		return svc
	}
	for _, rest, ok := strings.Cut(name, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
		if svc := is("*." + rest); svc != nil {
			return svc
		}
	}
	return nil
}
