package envoy

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/sallyport/sallyport/xds/wire"
)

// The filters by which a request ends with the rule that let it through.
const (
	filterEnds       = wire.StateEnds
	filterEndsHeader = filterEnds + ".header"
)

// mayLast is the header by which Envoy's router is told how long a request may go on, in milliseconds, from when it has come whole. It goes no further.
const mayLast = "x-envoy-upstream-stream-duration-ms"

// endWithRule are the filters by which a request, its answer and whatever it was upgraded to end when a rule does that let it through, within a second, by Envoy's own clock: nobody
// has to be there then (docs/adr/0091-requests-end-with-their-rule.md). They are off where no rule ends.
//
// A rule that ends says so in its name, which the filters of access note; the levels' rules are two, and the first end counts. A CONNECT that has its connection to itself is asked about otherwise, and reset (package tunnels).
func endWithRule() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{
		off(httpFilter(filterEnds, &httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{mayGoOn()}})),
		off(httpFilter(filterEndsHeader, saysHowLong())),
	}
}

// mayGoOn is how long a request may go on; nothing where its rules do not end.
func mayGoOn() *statev3.FilterStateValue {
	root, own := endOf(wire.StatRoot), endOf(wire.StatOwn)
	return ComputedState(wire.StateEnds, "request.method == 'CONNECT' && request.protocol != 'HTTP/2' ? '' : "+
		root+" == '' ? ("+own+" == '' ? '' : "+lasts(own)+") : ("+own+" == '' || "+root+" < "+own+" ? "+lasts(root)+" : "+lasts(own)+")", NotShared)
}

// saysHowLong tells Envoy's router.
func saysHowLong() *headersv3.HeaderMutation {
	return &headersv3.HeaderMutation{Mutations: &headersv3.Mutations{RequestMutations: []*mutationv3.HeaderMutation{{Action: &mutationv3.HeaderMutation_Append{
		Append: &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: mayLast, Value: "%FILTER_STATE(" + wire.StateEnds + ":PLAIN)%"}, // "-" is no number, and says nothing
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		},
	}}}}}
}

// endOf is an expression for the end of the rule that a level's filter noted (wire.Rule); the empty text for one that does not end.
func endOf(level string) string {
	rules, key := "metadata.filter_metadata['"+FilterRBAC+"']", level+wire.EnforcedRule
	return "('" + key + "' in " + rules + " ? (" + rules + "['" + key + "'] + '||||||').split('|')[6] : '')"
}

// lasts is one for how long it is until then, in milliseconds: whole seconds, and almost one more.
func lasts(end string) string {
	return "string((timestamp(" + end + ") - request.time).getSeconds()) + '999'"
}
