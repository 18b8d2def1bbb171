package judge

import (
	"fmt"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/sidecar/verify"
)

// fix says what closes a way that is open.
func (f Facts) fix(r verify.Result, e policy.Explanation, known bool) string {
	switch {
	case r.Way == "gateway" || r.Way == "pod":
		return "let apps not reach this port: by a NetworkPolicy of your own, where the network plugin enforces it"
	case f.caught(r):
		return f.fixDecision(r, e, known)
	case r.Way == "dns-tunnel":
		return "let the pod's resolver refuse names that nobody registered: meshConfig.sallyport.dns.unregistered: refuse; " +
			"where the domain is registered as a pattern, register single names, or limit such questions: sallyport.dns.oddRate"
	case r.Way == "quic":
		return "refuse UDP 443 in the pod: injector.settings.redirect.blockQUIC: true in the chart's values (sallyport-agent init --block-quic), or " + f.fixOutside()
	case r.Way == "udp" || r.Way == "icmp":
		return "no proxy carries it; " + f.fixOutside()
	case r.Way == "dns-udp" || r.Way == "dns-tcp":
		return f.fixDNS(r)
	}
	if fix := f.Pod.fixCapture(r); fix != "" {
		return fix
	}
	return "have it caught: look for excludeOutboundPorts, excludeOutboundIPRanges and includeOutboundIPRanges in the pod's annotations and in " +
		"injector.settings.redirect of the chart's values (flags -o, -x, -i of sallyport-agent init); or " + f.fixOutside()
}

// fixDecision says what closes a way that the proxy itself lets pass.
func (f Facts) fixDecision(r verify.Result, e policy.Explanation, known bool) string {
	switch {
	case !known && f.Up:
		return "remove the ServiceEntry that registers it from the directory of up"
	case !known || e.Verdict == "allow" && e.Path == "passthrough" && e.DecidedBy.Kind != string(config.KindSidecar):
		return "close what nobody registered: meshConfig.outboundTrafficPolicy.mode: REGISTRY_ONLY"
	case e.Verdict == "allow" && e.Path == "passthrough":
		return fmt.Sprintf("write spec.outboundTrafficPolicy.mode: REGISTRY_ONLY in %s", object(e.DecidedBy))
	case e.Verdict == "allow":
		return fmt.Sprintf("%s lets it pass (%s): remove it, or give a target that is not registered", object(e.DecidedBy), e.DecidedBy.Rule)
	}
	return fmt.Sprintf("by %s (%s) it is closed, and the proxy lets it pass: has it the latest configuration? see sallyport proxies", object(e.DecidedBy), e.DecidedBy.Rule)
}

func (f Facts) fixDNS(r verify.Result) string {
	switch {
	case f.Pod != nil && f.Pod.rules != nil && !f.Pod.dns:
		return `let DNS be caught: remove ISTIO_META_DNS_CAPTURE: "false" from proxyMetadata (annotation proxy.istio.io/config), and create the pods anew`
	case f.Pod.fixCapture(r) != "":
		return f.Pod.fixCapture(r)
	}
	return "let DNS be caught: take 53 out of excludeOutboundPorts, and ISTIO_META_DNS_CAPTURE out of proxyMetadata; or " + f.fixOutside()
}

// fixOutside says what holds a pod from outside.
func (f Facts) fixOutside() string {
	switch {
	case f.Pod == nil:
		return "hold it from outside: the node guard or a NetworkPolicy (nodeGuard.enabled, networkPolicies.namespaces in the chart's values), elsewhere a firewall"
	case f.Holder != (config.Key{}):
		return fmt.Sprintf("see why %s does not hold it: does the network plugin enforce policies, and is the namespace one that the guard guards?", f.Holder)
	}
	return fmt.Sprintf("hold it from outside: nodeGuard.enabled=true, or networkPolicies.enabled=true and networkPolicies.namespaces={%s} in the chart's values", f.Pod.Namespace)
}
