package admission

import (
	"net/netip"
	"regexp"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// refusedBySchema ends what is said of a field that the Gateway API's own schema refuses: an API server says so, and of files nobody else does.
const refusedBySchema = ", and the API's schema refuses the object in a cluster"

// kubeHostname is what the schema takes for a host name.
var kubeHostname = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// gatewaySchema says what of an object of the Gateway API its schema refuses, of what is read and means something here all the same.
func (r *report) gatewaySchema() {
	switch spec := r.of.Spec.(type) {
	case *gatewayv1.HTTPRouteSpec:
		r.kubeHostnames(spec.Hostnames)
		for i := range spec.Rules {
			r.httpRuleSchema(at("spec.rules", i), &spec.Rules[i])
		}
	case *gatewayv1.GRPCRouteSpec:
		r.kubeHostnames(spec.Hostnames)
		for i, rule := range spec.Rules {
			field := at("spec.rules", i)
			repeatedFilters(r, field, rule.Filters, func(f gatewayv1.GRPCRouteFilter) string { return string(f.Type) })
			for k, b := range rule.BackendRefs {
				repeatedFilters(r, at(field, "backendRefs", k), b.Filters, func(f gatewayv1.GRPCRouteFilter) string { return string(f.Type) })
			}
		}
	case *gatewayv1.TLSRouteSpec:
		r.kubeHostnames(spec.Hostnames)
	case *gatewayv1.GatewaySpec:
		for i, l := range spec.Listeners {
			r.kubeHostname(at("spec.listeners", i, "hostname"), l.Hostname)
		}
	case *gatewayv1.ListenerSetSpec:
		for i, l := range spec.Listeners {
			r.kubeHostname(at("spec.listeners", i, "hostname"), l.Hostname)
		}
	}
}

func (r *report) kubeHostnames(names []gatewayv1.Hostname) {
	for i := range names {
		r.kubeHostname(at("spec.hostnames", i), &names[i])
	}
}

// kubeHostname looks at a host name; one that is not written, or empty, stands for all.
func (r *report) kubeHostname(field string, name *gatewayv1.Hostname) {
	if name == nil || *name == "" {
		return
	}
	if _, err := netip.ParseAddr(string(*name)); err == nil {
		r.warn(field, *name, "it is an address, and the API has host names only", "write a host name")
	} else if !kubeHostname.MatchString(string(*name)) {
		r.warn(field, *name, "it is no host name in lower case, nor one behind *."+refusedBySchema, "write one, as in www.example.com or *.example.com, without a port")
	}
}

func (r *report) httpRuleSchema(field string, rule *gatewayv1.HTTPRouteRule) {
	kind := func(f gatewayv1.HTTPRouteFilter) string { return string(f.Type) }
	repeatedFilters(r, field, rule.Filters, kind)
	for i, b := range rule.BackendRefs {
		repeatedFilters(r, at(field, "backendRefs", i), b.Filters, kind)
	}
	for i, f := range rule.Filters {
		if f.RequestRedirect != nil && len(rule.BackendRefs) > 0 {
			r.warn(at(field, "filters", i, "requestRedirect"), nil, "the rule redirects, and has backendRefs, which get nothing"+refusedBySchema, "remove one of the two")
		}
		if m := f.RequestMirror; m != nil && m.Percent != nil && m.Fraction != nil {
			r.warn(at(field, "filters", i, "requestMirror"), nil, "percent and fraction both say how much is mirrored"+refusedBySchema, "remove one of the two")
		}
	}
	if t := rule.Timeouts; t != nil && t.Request != nil && t.BackendRequest != nil {
		whole, err := time.ParseDuration(string(*t.Request))
		one, wrong := time.ParseDuration(string(*t.BackendRequest))
		if err == nil && wrong == nil && whole > 0 && one > whole {
			r.warn(at(field, "timeouts.backendRequest"), *t.BackendRequest, "it is longer than timeouts.request ("+string(*t.Request)+")"+refusedBySchema, "write at most that")
		}
	}
}

// repeatedFilters warns of filters of a type of which a rule, or a backend, has one.
func repeatedFilters[F any](r *report, field string, filters []F, kind func(F) string) {
	seen := map[string]bool{}
	for i, f := range filters {
		switch of := kind(f); of {
		case "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite", "CORS":
			if seen[of] {
				r.warn(at(field, "filters", i, "type"), of, "there is another of this type before it"+refusedBySchema, "write both into one")
			}
			seen[of] = true
		}
	}
}
