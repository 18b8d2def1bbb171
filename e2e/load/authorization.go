package load

import (
	"fmt"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// authorizes is what a sidecar's Envoy asks for by name, and has of the policies that select its pod: about requests.
const authorizes = "sallyport.authorization.requests"

// apps is how many different ones there are in a namespace, by the label that policies select.
const apps = 20

func appOf(i int) string { return fmt.Sprintf("app-%d", i%apps) }

// writeAuthorization fills a directory with Services of ten endpoints, and an AuthorizationPolicy for each app of each namespace, as far as that goes.
func (m mesh) writeAuthorization(o Options) error {
	if err := m.servicesFor(o, "{app: APP}"); err != nil {
		return err
	}
	for i := range o.Entries {
		if err := m.putAuthorization(namespace(i), appOf(i/namespaces), i/(namespaces*apps), 0); err != nil {
			return err
		}
	}
	return nil
}

// putAuthorization writes one of the policies that select an app, which lets in another account from round to round.
func (m mesh) putAuthorization(ns, app string, n, round int) error {
	return replace(m.named(fmt.Sprintf("%s.%s-%d", ns, app, n)), fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: %s-%d, namespace: %s}\n"+
		"spec:\n  selector: {matchLabels: {app: %[1]s}}\n  rules: [{from: [{source: {principals: [cluster.local/ns/%[3]s/sa/caller-%[4]d]}}], to: [{operation: {methods: [GET], paths: [/shop/*]}}]}]\n", app, n, ns, round))
}

// authorizationSteps edit the policy of the first sidecar's app three times, which some of the others are of, too.
func (m mesh) authorizationSteps(round int) (out []step) {
	ns, app := namespace(0), appOf(0)
	selected := func(n *core.Node) bool {
		of := n.GetMetadata().GetFields()
		return of["NAMESPACE"].GetStringValue() == ns && of["LABELS"].GetStructValue().GetFields()["app"].GetStringValue() == app
	}
	for n := range 3 {
		out = append(out, step{"changed", authorizes, func() error { return m.putAuthorization(ns, app, 0, 3*round+n+1) }, selected})
	}
	return out
}

// authorizationGoals are what one AuthorizationPolicy may cost: nothing to those that it does not select.
var authorizationGoals = append([]goal{
	{"proxies that are told of one AuthorizationPolicy, for each that it selects", "", [2]float64{1, 1}, func(f Figures) float64 { return float64(f.Told) / float64(max(f.Meant, 1)) }},
}, changeGoals("one AuthorizationPolicy", 0, 0, 0)...)
