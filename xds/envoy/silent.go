package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"

	"github.com/sallyport/sallyport/xds/wire"
)

// A client that says nothing may be slow to begin, or wait for its server. One listener takes all that a pod sends, and Envoy has one time for a listener to wait for first
// bytes. So that is short, and what a table then says about the address decides: where clients speak first, the connection goes on to an internal listener that waits
// longer (docs/adr/0169-clients-that-are-slow-to-begin.md).

// The values of wire.StateSilent. Envoy passes over the rest of a listener's filters when one has waited too long, so a filter behind those that read says that there is something.
const (
	silentYes = "yes"
	silentNo  = "no"
)

// A sidecar has a listener for each port, and the same answers as anybody else; so that its rows need no more, what is silent is told there by expressions (WaitWhereClientsSpeakFirst).

// MarkHeard comes after the filters that read.
func MarkHeard() *listenerv3.ListenerFilter {
	return atFirst(State(wire.StateSilent, silentNo, NotShared))
}

// SilentFormat is a format string: what HeaderSilent says of a connection.
const SilentFormat = "%FILTER_STATE(" + wire.StateSilent + ":PLAIN)%"

// MatchSilent matches questions about connections whose client has said nothing. Agents ask without that header about what is open, and so are answered as if there were no such row.
func MatchSilent() *routev3.RouteMatch {
	m := MatchQuestion(KindTCP)
	m.Headers = []*routev3.HeaderMatcher{{Name: HeaderSilent, HeaderMatchSpecifier: headerIs(silentYes)}}
	return m
}

// WaitLonger is the row that has them waited for.
func WaitLonger() *routev3.Route {
	return Answer{Cluster: wire.SilentName, LoggedBy: LoggedInside}.Row(MatchSilent())
}

// TellSilent is what the internal listener is told of a connection: the addresses, as Envoy's filter of original destinations reads them; which table is asked; and the proxy's own
// end, for the agent. Answers other than WaitLonger's have a route's name: behind that, an address is none, and so is not shared, or each connection would have a pool of its own.
func TellSilent() []*statev3.FilterStateValue {
	unless := AnswerFormat(sayRoute)
	return []*statev3.FilterStateValue{
		State(stateLocal, "%DOWNSTREAM_LOCAL_ADDRESS%"+unless, SharedOnce),
		State(stateRemote, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%"+unless, SharedOnce),
		State(wire.StateTable, TableFormat, SharedOnce),
		State(wire.StateDoor, wire.LeavingLocal, SharedOnce),
	}
}

// WaitWhereClientsSpeakFirst leads a sidecar's connection on to the internal listener, and tells that what TellSilent does, where the answer closes it since clients speak first at its address,
// and its client has said nothing. table is the one that was asked. Addresses are told then alone, or each connection would have a pool of its own; the rest is the same of all.
func WaitWhereClientsSpeakFirst(table string) []*statev3.FilterStateValue {
	waits := AnswerExpression(sayRoute) + " == '" + wire.WrongProtocolRoute + "' && " + stateExpression(wire.StateSilent) + " == '" + silentYes + "' ? "
	only := func(key, value string, shared statev3.FilterStateValue_SharedWithUpstream) *statev3.FilterStateValue {
		return ComputedState(key, waits+value+" : ''", shared)
	}
	return []*statev3.FilterStateValue{
		State(wire.StateSilent, SilentFormat+silentYes, NotShared), // with "no" before it of who has been heard
		only(wire.StateTCPCluster, "'"+wire.SilentName+"'", NotShared),
		only(stateLocal, "destination.address", SharedOnce),
		only(stateRemote, "source.address", SharedOnce),
		State(wire.StateTable, table, SharedOnce),
		State(wire.StateDoor, wire.LeavingLocal, SharedOnce),
	}
}

// stateExpression is a value of the filter state in an expression.
func stateExpression(key string) string { return "string(filter_state['" + key + "'])" }

// unlessItWaits leaves out of a log what has gone on to the internal listener, which tells what becomes of it. What has no answer, or did not get there, stays.
func unlessItWaits(log []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	for _, l := range log {
		l.Filter = allOf(l.Filter, anyOf(gotNowhere(), unsaidBy(FilterAsk, sayRoute), stringExpression(
			AnswerExpression(sayRoute)+" != '"+wire.WrongProtocolRoute+"' || "+stateExpression(wire.StateSilent)+" != '"+silentYes+"'")))
	}
	return log
}

// KnowSilent says in the internal listener whose a connection is, and whence, as a pod's listener does.
func KnowSilent() *listenerv3.Filter {
	return SetFilterState(
		State(wire.StateClient, "%FILTER_STATE("+wire.StateIdentity+":PLAIN)%", NotShared),
		State(wire.StateFrom, "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", NotShared),
		State(wire.StateSource, "%DOWNSTREAM_REMOTE_ADDRESS%", NotShared), // the log's
	)
}

// The two ends of a connection there, as LeavingLocal and LeavingClient are elsewhere.
const (
	SilentLocal  = "%FILTER_STATE(" + wire.StateDoor + ":PLAIN)%"
	SilentClient = "%DOWNSTREAM_REMOTE_ADDRESS%"
)

// ConnectAgain is what becomes of a client that has spoken at last: its connection is made once more, to where it wanted to go. By the cluster a node's proxy connects from the pod's network without the
// mark that lets it pass, and a sidecar from wire.PassthroughSource, so the pod's rules lead it to the pod's listener, where the first bytes are there at once. So it is served as anybody is, by a connection of the network's: behind one
// inside of Envoy a connection manager's close would be read as a reset, before the response (docs/adr/0061-first-words-and-long-names.md).
func ConnectAgain() []*listenerv3.Filter {
	return []*listenerv3.Filter{
		SetFilterState(State(wire.StateOriginalDst, "%DOWNSTREAM_LOCAL_ADDRESS%", NotShared)),
		TCPProxy{Stat: wire.SilentAgain, Cluster: wire.SilentAgain}.Filter(),
	}
}
