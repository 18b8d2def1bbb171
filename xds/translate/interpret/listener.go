package interpret

import (
	"net/netip"
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	listenerstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/set_filter_state/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
)

// conn is a connection at one listener.
type conn struct {
	*try
	listener   *listenerv3.Listener
	to, from   netip.AddrPort // zero at an internal listener
	bytes      Bytes
	transport  string   // that was detected: "tls" or "raw_buffer"
	sni        string   // in lower case, "" for none
	alpn       []string // offered, or the version of HTTP that was detected
	shaken     bool     // TLS was ended here
	peer       []string // whom the client proved to be
	state      filterState
	metadata   map[string]map[string]string // dynamic, by filter
	redirected bool                         // by iptables
	restored   bool                         // to is the original destination, and the proxy knows
	looked     bool                         // its name was looked up
	trusts     uint32                       // how many proxies in front are believed about the client
}

// accept finds the listener that takes a connection from outside of the proxy.
func (t *try) accept(c Connection) {
	l := t.listenerAt(c.Through, c.To.Addr(), true)
	if l == nil {
		t.close("nothing listens at port %d", c.Through)
		return
	}
	n := &conn{try: t, listener: l, to: c.To, from: c.From, bytes: c.Bytes, redirected: c.Redirected, state: filterState{}, metadata: map[string]map[string]string{}}
	n.begin(c.Through)
}

// listenerAt finds the listener of a port, for the address family.
func (t *try) listenerAt(port uint32, addr netip.Addr, bound bool) *listenerv3.Listener {
	for _, l := range t.proxy.ports[port] {
		if binds := l.BindToPort == nil || l.BindToPort.Value; binds != bound && bound {
			continue
		}
		addresses := []string{l.Address.GetSocketAddress().Address}
		for _, more := range l.AdditionalAddresses {
			addresses = append(addresses, more.Address.GetSocketAddress().Address)
		}
		for _, text := range addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				unknown("listener %q: address %q", l.Name, text)
			}
			if a == addr || a.IsLoopback() || (a.IsUnspecified() && a.Is4() == addr.Is4()) {
				return l
			}
		}
	}
	return nil
}

// begin is what a listener does first. through is the port that the connection came in at.
func (n *conn) begin(through uint32) {
	n.step("listener %s", n.listener.Name)
	if !n.inspect() {
		return
	}
	if n.listener.UseOriginalDst.GetValue() && n.restored && uint32(n.to.Port()) != through {
		if l := n.listenerAt(uint32(n.to.Port()), n.to.Addr(), false); l != nil && l != n.listener {
			over := &conn{try: n.try, listener: l, to: n.to, from: n.from, bytes: n.bytes, state: filterState{}, metadata: map[string]map[string]string{}, redirected: n.redirected, restored: true}
			over.begin(uint32(n.to.Port()))
			return
		}
	}
	if n.transport == "" {
		n.transport = "raw_buffer"
	}
	c := n.chain()
	if c == nil {
		n.close("no filter chain of listener %s matches", n.listener.Name)
		return
	}
	n.step("filter chain %s", c.Name)
	if n.terminate(c) {
		n.network(c.Filters)
	}
}

// inspect runs the listener's filters; false is that the connection ended there.
func (n *conn) inspect() bool {
	for _, f := range n.listener.ListenerFilters {
		if f.FilterDisabled != nil && n.holds(f.FilterDisabled) {
			continue
		}
		m, err := f.GetTypedConfig().UnmarshalNew()
		if err != nil {
			unknown("listener filter %s: %v", f.Name, err)
		}
		switch m := m.(type) {
		case *originaldstv3.OriginalDst:
			n.restore()
			continue
		case *listenerstatev3.Config:
			n.state.set(&scope{conn: n, state: n.state, metadata: n.metadata}, m.OnAccept)
			continue
		case *tlsinspectorv3.TlsInspector:
			if h := n.bytes.Hello; h != nil {
				n.transport, n.sni, n.alpn = "tls", strings.ToLower(h.SNI), h.ALPN
			}
		case *httpinspectorv3.HttpInspector:
			if n.transport == "" && n.bytes.Request != nil {
				n.alpn = []string{"http/1.1"}
			}
		default:
			unknown("listener filter %s: %T", f.Name, m)
		}
		if n.bytes.Waits && !n.listener.ContinueOnListenerFiltersTimeout {
			n.close("the client says nothing")
			return false
		}
		if n.bytes.Waits { // the filters behind are passed over
			return true
		}
	}
	return true
}

// restore finds the original destination: the kernel's, or, at an internal listener, what the state says.
func (n *conn) restore() {
	if n.to.IsValid() {
		n.restored = n.redirected
		return
	}
	to, err := netip.ParseAddrPort(n.state[keyLocal].text)
	if err != nil {
		return
	}
	n.to, n.restored = to, true
	if from, err := netip.ParseAddrPort(n.state[keyRemote].text); err == nil {
		n.from = from
	}
}

// holds says whether a predicate for listener filters is true.
func (n *conn) holds(p *listenerv3.ListenerFilterChainMatchPredicate) bool {
	switch r := p.Rule.(type) {
	case *listenerv3.ListenerFilterChainMatchPredicate_OrMatch:
		return slices.ContainsFunc(r.OrMatch.Rules, n.holds)
	case *listenerv3.ListenerFilterChainMatchPredicate_AndMatch:
		return !slices.ContainsFunc(r.AndMatch.Rules, func(p *listenerv3.ListenerFilterChainMatchPredicate) bool { return !n.holds(p) })
	case *listenerv3.ListenerFilterChainMatchPredicate_NotMatch:
		return !n.holds(r.NotMatch)
	case *listenerv3.ListenerFilterChainMatchPredicate_AnyMatch:
		return r.AnyMatch
	case *listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange:
		port := int32(n.to.Port())
		return r.DestinationPortRange.Start <= port && port < r.DestinationPortRange.End
	default:
		unknown("listener %q: filter_disabled: %T", n.listener.Name, r)
		return false
	}
}
