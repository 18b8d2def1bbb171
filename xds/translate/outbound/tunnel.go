package outbound

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// tlsChain asks about TLS connections by their SNI, which is "" where the ClientHello holds none.
func (in Inputs) tlsChain(decide, asRange string) *listenerv3.FilterChain {
	return envoy.FilterChain("tls", envoy.MatchTLS(), tunnel{table: decide, stat: decide, tls: true, asRange: asRange, mesh: in.Mesh, told: in.Ends}.filters()...)
}

// tunnel is a connection of an app's whose bytes are not looked at.
type tunnel struct {
	table   string // the internal listener of the table that is asked, or, of all, a format string for the table's name
	all     bool   // the table is asked where all are
	stat    string
	tls     bool   // it is asked for by its SNI, not by its address
	mesh    bool   // it is logged where it leads to a pod, too
	told    bool   // the agent is told when one that leaves has begun
	own     string // of all, the namespace whose tables they are
	waits   bool   // by a sidecar's table, it is waited for longer where clients speak first
	silent  bool   // its client was slow to begin: it comes by the internal listener that waits longer
	asRange string // what is asked for last, "host:port": the owner of the range that the address is in
}

// filters ask where it goes, and go there.
func (t tunnel) filters() []*listenerv3.Filter {
	q := envoy.Question{Table: t.table, All: t.all, Name: "%DOWNSTREAM_LOCAL_ADDRESS%", Also: map[string]string{
		envoy.HeaderKind: envoy.KindTCP, envoy.HeaderTo: "%DOWNSTREAM_LOCAL_ADDRESS%", envoy.HeaderRange: t.asRange,
	}}
	whereto := []*statev3.FilterStateValue{
		envoy.TunnelProtocols(),
		envoy.State(wire.StateServerName, envoy.AnswerFormat(envoy.SaySNI), envoy.NotShared),
		envoy.ComputedState(wire.StateServerName, envoy.AnswerExpression(envoy.SayDialled)+" + destination.address + "+envoy.AnswerExpression(envoy.SayHost), envoy.NotShared),
	}
	if t.all && !t.tls && !t.silent {
		q.Also[envoy.HeaderSilent] = envoy.SilentFormat
		whereto = append(whereto, envoy.TellSilent()...)
	}
	if t.waits {
		whereto = append(whereto, envoy.WaitWhereClientsSpeakFirst(t.table)...)
	}
	if t.tls {
		q.Name, q.Also[envoy.HeaderKind] = "%REQUESTED_SERVER_NAME%:%DOWNSTREAM_LOCAL_PORT%", envoy.KindTLS
		whereto = append(whereto,
			envoy.ComputedState(wire.StateServerName, envoy.AnswerExpression(envoy.SaySNIOf)+" + connection.requested_server_name", envoy.NotShared),
			envoy.ComputedState(wire.StateAuthority, envoy.AnswerExpression(envoy.SayThere)+" + connection.requested_server_name + ':' + "+envoy.AnswerExpression(envoy.SayPort), envoy.SharedOnce),
			envoy.ComputedState(wire.StateSource, envoy.AnswerExpression(envoy.SayThere)+" + source.address", envoy.SharedOnce),
			envoy.ComputedState(wire.StateDialled, envoy.AnswerExpression(envoy.SayThere)+" + destination.address", envoy.SharedOnce),
			envoy.State(wire.StateCluster, envoy.AnswerFormat(envoy.SayBehind), envoy.SharedOnce),
			envoy.State(wire.StatePort, envoy.AnswerFormat(envoy.SayPort), envoy.SharedOnce),
			envoy.ShareRulings(),
		)
	}
	out := envoy.TCPProxy{Stat: t.stat, Cluster: wire.BlackHoleCluster, Log: wire.SidecarTunnel, Mesh: t.mesh, Waits: t.waits, Tags: envoy.QuestionTags(q.Name)}
	if t.silent {
		out.Tags[wire.TagSource] = envoy.TagFormats[wire.TagSource]
	}
	if t.told {
		tag := t.begun().Tag()
		out.Begins, out.Leaving, out.Tags[wire.TagTunnel] = true, true, tag
		if t.tls { // a pattern's are told of behind
			whereto = append(whereto, envoy.State(wire.StateTunnel, tag, envoy.NotShared),
				envoy.ComputedState(wire.StateTunnel, envoy.AnswerExpression(envoy.SayThere)+" + string(filter_state['"+wire.StateTunnel+"'])", envoy.SharedOnce))
		}
	}
	return []*listenerv3.Filter{q.Filter(), envoy.RouteByAnswer(whereto...), out.Filter()}
}

// begun is what the agent is told. A port where nothing is registered may have a table later, which is to be asked then (package tunnels).
func (t tunnel) begun() wire.Leaving {
	out := wire.Leaving{Local: wire.LeavingLocal, Client: wire.LeavingClient, Kind: envoy.KindTCP, To: "%DOWNSTREAM_LOCAL_ADDRESS%", Table: t.table, Range: t.asRange}
	if t.silent {
		out.Local, out.Client = envoy.SilentLocal, envoy.SilentClient
	}
	switch {
	case t.silent: // at a port that has a table
	case t.table == envoy.TableFormat:
		out.Table = envoy.PortTableFormat(t.own)
	case t.table == wire.CatchAllDecide:
		out.Table = wire.DecideFormat
	}
	if t.tls {
		out.Kind = envoy.KindTLS
	}
	return out
}

// patternsInside is the internal listener, and the cluster in front of it, where a sidecar looks up the name of a TLS
// connection to a pattern's host that it connects to itself.
const patternsInside = "outbound-any"

func patternsListener(told bool) *listenerv3.Listener {
	out := envoy.TCPProxy{Stat: patternsInside, Cluster: wire.BlackHoleCluster, Log: wire.SidecarTunnel, Tags: map[string]string{
		wire.TagAuthority: envoy.TagFormats[wire.TagAuthority], wire.TagSource: envoy.TagFormats[wire.TagSource],
		wire.TagTarget: envoy.TagFormats[wire.TagTarget], wire.TagRules: envoy.TagFormats[wire.TagRules],
	}}
	if told {
		out.Begins, out.Tags[wire.TagTunnel] = true, envoy.TagFormats[wire.TagTunnel]
	}
	// what was read before is read again: Envoy looks names up only where it knows one
	return envoy.WithFirstByteTimeout(envoy.InternalListener(patternsInside, []*listenerv3.ListenerFilter{envoy.InspectTLS()}, envoy.FilterChain("tls", nil, append(envoy.ResolveFilters(), out.Filter())...)))
}

// TowardsGateway says to the gateway which host and port a tunnel is for. A pattern's host is the one that the client named.
func TowardsGateway(svc *registry.Service, port registry.Port, contested bool) envoy.Answer {
	a := envoy.Answer{Route: "default", Cluster: part.LegOf(svc).Cluster(), LoggedBy: envoy.LoggedAtGateway, Alpn: wire.ALPNTCP}
	subset := ""
	if contested {
		subset = svc.Namespace
	}
	toSubset, toHost := wire.TunnelName(port.Number, subset)
	switch {
	case svc.Wildcard():
		a.SniOf, a.Alpn = toHost, wire.ALPNTLS
	case port.Protocol == registry.TLS:
		a.Sni, a.Alpn = toHost+svc.Host, wire.ALPNTLS
	case svc.Dialled():
		a.Dialled, a.Host = toSubset+"~", "_."+svc.Host
	default:
		a.Sni = toHost + svc.Host
	}
	return a
}
