package admission

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// authorizationPolicy judges what Istio's own admission does, and what would mean nothing here.
func (r *report) authorizationPolicy(p *security.AuthorizationPolicy) {
	r.selection(p.Selector, p.TargetRef, p.TargetRefs)
	if dry := r.of.Annotations[authz.DryRunAnnotation]; dry != "" && dry != "true" && dry != "false" {
		r.reject("metadata.annotations", dry, "the annotation "+authz.DryRunAnnotation+" is neither true nor false", "write true, or remove it")
	}
	if r.of.Annotations[authz.DryRunAnnotation] == "true" && p.Action == security.AuthorizationPolicy_AUDIT {
		r.reject("metadata.annotations", "true", "a policy that audits denies nothing, so there are no dry runs of AUDIT", "remove "+authz.DryRunAnnotation)
	}
	for i, rule := range p.Rules {
		r.authorizationRule(at("spec.rules", i), rule)
	}
	policy := authz.FromSpec(&r.of, p)
	for i := range policy.Rules {
		if rule := &policy.Rules[i]; (policy.Action == authz.Deny || policy.Action == authz.Custom) && rule.OfRequests() && !rule.Tells() {
			does := map[authz.Action]string{authz.Deny: "denies", authz.Custom: "has the provider asked about"}[policy.Action]
			r.warn(at("spec.rules", i), nil, "of TLS and TCP, whose requests nobody reads, it "+does+" all that the rest of the rule does not tell apart: methods, paths, hosts, headers and tokens are of requests alone",
				"add the ports that requests go to")
		}
	}
	r.provider(p)
	if policy.Action == authz.Deny && len(p.Rules) == 0 {
		r.reject("spec.rules", nil, "a policy that denies by no rule denies nothing", "write rules, or ALLOW without rules to deny everything")
	}
}

// selection judges whom a policy is for.
func (r *report) selection(selector *typev1beta1.WorkloadSelector, target *typev1beta1.PolicyTargetReference, targets []*typev1beta1.PolicyTargetReference) {
	r.selector("spec.selector.matchLabels", selector.GetMatchLabels())
	targets = slices.Clone(targets)
	if target != nil {
		targets = append(targets, target)
	}
	if selector != nil && len(targets) > 0 {
		r.reject("spec.selector", nil, "a policy has a selector, or it has targets", "remove one of the two")
	}
	for i, t := range targets {
		r.target(at("spec.targetRefs", i), t)
	}
}

func (r *report) target(field string, t *typev1beta1.PolicyTargetReference) {
	switch {
	case selection.IsClass(t) && t.Name != "" && !gatewayapi.IsWaypoint(gatewayv1.ObjectName(t.Name)):
		r.reject(field+".name", t.Name, "a policy for a GatewayClass is for all waypoints of the class, and no waypoint is of this one", "name "+waypointClasses()+", or target Gateways")
	case !selection.IsService(t) && !selection.IsGateway(t) && !selection.IsEntry(t) && !selection.IsClass(t):
		r.reject(field+".kind", t.Kind, "policies target Services of gateways and of waypoints, ServiceEntries that have one, Gateways, and in the root namespace GatewayClasses, of the group "+selection.GatewayGroup+", and would be kept nowhere",
			"name one of these, or select the gateway's pods by labels")
	case t.Namespace != "" && t.Namespace != r.of.Namespace:
		r.reject(field+".namespace", t.Namespace, "a policy has targets in its own namespace", "remove it, or write the policy into that namespace")
	case t.Name == "":
		r.reject(field+".name", nil, "it is missing", "name the "+t.Kind)
	}
}

// waypointClasses are the classes that waypoints are of, in words.
func waypointClasses() string {
	var names []string
	for _, c := range gatewayapi.WaypointClasses {
		names = append(names, string(c))
	}
	return strings.Join(names, " or ")
}

// judgeClasses says of a policy for the waypoints of classes where it is for none: outside of the root namespace, or, as far as it is known, since there are none.
func (w *world) judgeClasses(r *report, p selection.Workloads, open string) {
	switch {
	case len(p.Classes) == 0:
	case p.Namespace != w.cfg.RootNamespace:
		r.reject("spec.targetRefs", p.Classes[0], "only policies of the root namespace, "+w.cfg.RootNamespace+", are for the waypoints of a GatewayClass, as in Istio: "+open, "write it into that namespace, or target the waypoint's Gateway")
	case len(w.kubeGateways) > 0 && !w.hasWaypointOf(p):
		r.warn("spec.targetRefs", p.Classes[0], "no waypoint of the class is known, so it is for nobody yet", "mend the name, if the waypoints are there already")
	}
}

// hasWaypointOf says whether a policy is for a waypoint that is known, by its name or its class.
func (w *world) hasWaypointOf(p selection.Workloads) bool {
	for key, o := range w.kubeGateways {
		spec := o.Spec.(*gatewayv1.GatewaySpec)
		if gatewayapi.IsWaypoint(spec.GatewayClassName) && p.ForWaypoint(w.cfg.RootNamespace, key.Namespace, key.Name, string(spec.GatewayClassName)) {
			return true
		}
	}
	return false
}

func (r *report) authorizationRule(field string, rule *security.Rule) {
	for i, from := range rule.From {
		r.source(at(field+".from", i, "source"), from.GetSource())
	}
	for i, to := range rule.To {
		r.operation(at(field+".to", i, "operation"), to.GetOperation())
	}
	for i, c := range rule.When {
		r.condition(at(field+".when", i), c)
	}
}

func (r *report) source(field string, s *security.Source) {
	accounts := slices.Concat(s.GetServiceAccounts(), s.GetNotServiceAccounts())
	named := slices.Concat(s.GetPrincipals(), s.GetNotPrincipals(), s.GetNamespaces(), s.GetNotNamespaces(), s.GetTrustDomains(), s.GetNotTrustDomains())
	requests := slices.Concat(s.GetRequestPrincipals(), s.GetNotRequestPrincipals())
	blocks := slices.Concat(s.GetIpBlocks(), s.GetNotIpBlocks(), s.GetRemoteIpBlocks(), s.GetNotRemoteIpBlocks())
	if len(accounts)+len(named)+len(blocks)+len(requests) == 0 {
		r.reject(field, nil, "it names nobody", "name somebody, or remove it to mean all")
	}
	if len(accounts) > 0 && len(s.GetPrincipals())+len(s.GetNotPrincipals())+len(s.GetNamespaces())+len(s.GetNotNamespaces()) > 0 {
		r.reject(field+".serviceAccounts", nil, "service accounts cannot be beside principals or namespaces", "use one of them")
	}
	for _, a := range accounts {
		r.account(field+".serviceAccounts", a)
	}
	r.sourceValues(field, s)
	r.texts(field, named)
	r.texts(field, requests)
	r.blocks(field, blocks)
}

func (r *report) operation(field string, o *security.Operation) {
	ports := slices.Concat(o.GetPorts(), o.GetNotPorts())
	paths := slices.Concat(o.GetPaths(), o.GetNotPaths())
	others := slices.Concat(o.GetHosts(), o.GetNotHosts(), o.GetMethods(), o.GetNotMethods())
	if len(ports)+len(paths)+len(others) == 0 {
		r.reject(field, nil, "it asks for nothing", "say what is asked for, or remove it to mean everything")
	}
	r.ports(field+".ports", ports)
	r.texts(field, others)
	r.texts(field, paths)
	r.operationValues(field, o)
	for _, p := range paths {
		if strings.ContainsAny(p, "{}") && !isTemplate(p) {
			r.reject(field+".paths", p, "is no path template", "use {*} for a segment, and as the last of them {**} for any number of segments")
		}
	}
}

// isTemplate says whether a path with braces is one that Istio takes: {*} and {**} are whole segments, {**} is the last of them, and
// there is no other "*".
func isTemplate(p string) bool {
	last := false
	for _, segment := range strings.Split(p, "/") {
		operator := segment == "{*}" || segment == "{**}"
		if !operator && strings.ContainsAny(segment, "*{}") || operator && last {
			return false
		}
		last = last || segment == "{**}"
	}
	return true
}

func (r *report) condition(field string, c *security.Condition) {
	t, known := authz.ConditionTerm(r.of.Namespace, c)
	values := slices.Concat(c.Values, c.NotValues)
	switch {
	case !known:
		r.reject(field+".key", c.Key, "no proxy can tell it", "ask for source.ip, remote.ip, source.namespace, source.principal, source.serviceAccount, destination.ip, destination.port, connection.sni, request.headers[NAME], request.auth.principal, request.auth.audiences, request.auth.presenter or request.auth.claims[NAME]")
	case len(values) == 0:
		r.reject(field, nil, "it has no values", "add values or notValues")
	case t.Attribute == authz.Header && !isHeaderName(t.Header):
		r.reject(field+".key", c.Key, "names no header", "write request.headers[NAME]")
	case t.Attribute == authz.SourceIP || t.Attribute == authz.RemoteIP || t.Attribute == authz.DestinationIP:
		r.blocks(field, values)
	case t.Attribute == authz.Port:
		r.ports(field+".values", values)
	case t.Attribute == authz.ServiceAccount:
		for _, a := range values {
			r.account(field+".values", a)
		}
	default:
		r.texts(field, values)
		if t.Attribute == authz.Principal {
			r.stars(field+".values", values)
			r.principals(field+".values", values)
		}
	}
}

func isHeaderName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) < 0
}

func (r *report) texts(field string, list []string) {
	if slices.Contains(list, "") {
		r.reject(field, nil, "a value is empty", "remove it; * stands for any value that is there")
	}
}

func (r *report) blocks(field string, list []string) {
	for _, text := range list {
		if _, err := authz.Range(text); err != nil {
			r.reject(field, text, "is no address, and no range of them", "write it as 203.0.113.4 or 203.0.113.0/24")
		}
	}
}

func (r *report) ports(field string, list []string) {
	for _, text := range list {
		if n, err := strconv.ParseUint(text, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
			r.reject(field, text, "is no port", "write a number from 1 to 65535")
		}
	}
}

// judgeAuthorization says where a policy is kept nowhere: of one that targets a Service, where no egress gateway that is known has it; of
// others the same in a mesh without mutual TLS, where sidecars keep none.
func (w *world) judgeAuthorization(r *report, p *security.AuthorizationPolicy) {
	policy := authz.FromSpec(&r.of, p)
	w.judgeProvider(r, policy)
	w.judgeDestination(r, policy)
	w.checkAuthorizedPorts(r, p, policy)
	w.checkUnreadPorts(r, p, policy)
	defer func() {
		w.judgeTargets(r, p, policy.Workloads)
		if !Refused(r.findings) {
			w.checkTokens(r, p, policy)
		}
	}()
	const open = "what it denies, or does not allow, is let through"
	w.judgeClasses(r, policy.Workloads, open)
	if p.Action != security.AuthorizationPolicy_AUDIT {
		w.judgeWaypointsSelected(r, policy.Workloads, open)
	}
	if p.Action == security.AuthorizationPolicy_AUDIT || w.cfg.MutualTLS && !policy.Targeted || w.fronted(policy.Workloads) {
		return // what is said of it does not depend on others, or it is kept
	}
	switch known, selected := w.gatewaysSelected(policy.Workloads); {
	case policy.Targeted && known && !selected && len(policy.Classes) == 0:
		r.reject("spec", nil, noTarget+open, fixTarget)
	case policy.Targeted:
	case len(policy.Selector) == 0 && allowsAll(policy):
		r.warn("spec", nil, keptAtGateways+", and elsewhere everything is let through, as it says", "select the pods of a gateway, or remove it")
	case len(policy.Selector) == 0:
		r.reject("spec", nil, keptAtGateways+", and for all other workloads requests that it denies, or does not allow, would be let through", fixKept)
	case known && !selected:
		r.reject("spec", nil, keptAtGateways+", and none that is known is selected: what it denies, or does not allow, is let through", fixKept)
	}
}

const (
	noTarget  = "no gateway that is known is targeted, nor a Service or ServiceEntry that has a waypoint, and the policy is kept nowhere else: "
	fixTarget = "target the Service of a gateway in its namespace, a Service or ServiceEntry with the label istio.io/use-waypoint, or a Gateway; select pods by labels"

	keptAtGateways = "AuthorizationPolicies are kept at gateways only in this mesh"
	fixKept        = "remove sallyport.mutualTLS: false from the mesh's settings, so that sidecars keep them; or select the pods of a gateway, in its namespace or from the root namespace, " +
		"and close the ways between pods by NetworkPolicies"
)

// allowsAll says whether a policy lets everything through.
func allowsAll(p *authz.Policy) bool {
	return p.Action == authz.Allow && slices.ContainsFunc(p.Rules, func(r authz.Rule) bool { return len(r.From)+len(r.To)+len(r.When) == 0 })
}

// gatewaysSelected says whether egress gateways are known, and whether a policy is for pods of one, or of an ingress gateway.
func (w *world) gatewaysSelected(p selection.Workloads) (known, selected bool) {
	exits := w.exits()
	for _, name := range p.Gateways {
		if _, there := w.kubeGateways[config.Key{Kind: config.KindKubeGateway, Namespace: p.Namespace, Name: name}]; there {
			return true, true
		}
	}
	return len(exits) > 0, w.selectsOne(p, slices.Concat(exits, w.ingresses()))
}

// selectsOne says whether a policy is for pods of one of some gateways.
func (w *world) selectsOne(p selection.Workloads, of []serviceOfGateway) bool {
	for _, g := range of {
		if p.Selects(w.cfg.RootNamespace, g.namespace, g.selector, []string{g.name}) {
			return true
		}
		for _, pod := range w.workloads[g.namespace] {
			if hasLabels(pod.labels, g.selector) && p.Selects(w.cfg.RootNamespace, g.namespace, pod.labels, []string{g.name}) {
				return true
			}
		}
	}
	return false
}

// serviceOfGateway is a gateway's Service.
type serviceOfGateway struct {
	namespace, name string
	selector        map[string]string
}

// exits are the egress gateways whose Services are known: the mesh's, and those that annotations name. The list is not to be changed.
func (w *world) exits() []serviceOfGateway {
	if w.exitServices == nil {
		w.exitServices = w.findExits()
	}
	return w.exitServices
}

// findExitHosts are the names of the Services of egress gateways: of those that are known, and the mesh's, whether its Service is known or not.
func (w *world) findExitHosts() map[host.Name]bool {
	out := map[host.Name]bool{}
	add := func(ref registry.Ref) { out[host.Name(ref.Host())] = true }
	if !w.cfg.DefaultGateway.IsDirect() {
		add(registry.Ref(w.cfg.DefaultGateway))
	}
	for _, g := range w.exits() {
		add(registry.Ref{Namespace: g.namespace, Name: g.name})
	}
	for _, o := range w.kubeGateways {
		spec := o.Spec.(*gatewayv1.GatewaySpec)
		if stands, named := gatewayapi.EgressService(spec); gatewayapi.IsEgress(spec.GatewayClassName) && named {
			add(registry.Ref{Namespace: stands.Namespace, Name: stands.Name})
		}
	}
	return out
}

func (w *world) findExits() []serviceOfGateway {
	out := []serviceOfGateway{}
	names := map[string]bool{w.cfg.DefaultGateway.Namespace + "/" + w.cfg.DefaultGateway.Name: true}
	for _, o := range w.objects {
		if named := o.Annotations[registry.GatewayAnnotation]; named != "" {
			names[named] = true
		}
	}
	for _, o := range w.objects {
		if svc, ok := o.Spec.(*corev1.Service); ok && o.Kind == config.KindService && names[o.Namespace+"/"+o.Name] && len(svc.Spec.Selector) > 0 {
			out = append(out, serviceOfGateway{o.Namespace, o.Name, svc.Spec.Selector})
		}
	}
	return out
}

// ingresses are the Services whose pods Gateway objects select. The list is not to be changed.
func (w *world) ingresses() []serviceOfGateway {
	if w.ingressFound == nil {
		w.ingressFound = w.findIngresses()
	}
	return w.ingressFound
}

func (w *world) findIngresses() []serviceOfGateway {
	out := []serviceOfGateway{}
	for _, o := range w.objects {
		svc, ok := o.Spec.(*corev1.Service)
		if !ok || o.Kind != config.KindService || len(svc.Spec.Selector) == 0 {
			continue
		}
		for _, g := range w.gateways {
			if selector := g.Spec.(*networking.Gateway).Selector; len(selector) > 0 && hasLabels(svc.Spec.Selector, selector) {
				out = append(out, serviceOfGateway{o.Namespace, o.Name, svc.Spec.Selector})
				break
			}
		}
	}
	return out
}
