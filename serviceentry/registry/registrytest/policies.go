package registrytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// PolicyTime is the time around which rules of random policies begin and end.
var PolicyTime = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// Governed makes people, and random policies that govern them, in these namespaces; hosts are what requests are for.
func (w *World) Governed(namespaces, hosts []string) {
	for _, ns := range namespaces {
		for i := range w.rand.IntN(4) {
			w.put(w.person(ns, i))
		}
		if w.rand.IntN(2) == 0 {
			w.putNamespaceLabels(ns)
		}
	}
	for range 1 + w.rand.IntN(8) {
		w.put(w.Policy(pick(w, append([]string{"istio-system"}, namespaces...)), hosts))
	}
}

// Accounts are the service accounts that people have.
var Accounts = []string{"default", "app", "other"}

// PeopleLabels are the labels that they have.
var PeopleLabels = []map[string]string{{"istio": "app"}, {"istio": "app", "who": "a"}, {"who": "a"}, {"who": "b"}, nil}

// person is a Pod, or a WorkloadEntry, with an address that at times another one has, too.
func (w *World) person(ns string, i int) *config.Object {
	at := fmt.Sprintf("10.4.1.%d", 100+10*slices.Index(meshNamespaces, ns)+w.rand.IntN(4))
	account, labels := pick(w, Accounts), pick(w, PeopleLabels)
	if w.rand.IntN(4) == 0 {
		return w.made(config.KindWorkloadEntry, ns, fmt.Sprintf("p%d", i), &networking.WorkloadEntry{Address: at, Labels: labels, ServiceAccount: account}, nil)
	}
	p := &corev1.Pod{}
	p.Labels, p.Spec.ServiceAccountName, p.Status.PodIP = labels, account, at
	if w.rand.IntN(6) == 0 {
		p.Status.PodIPs = []corev1.PodIP{{IP: at}, {IP: "fd00:4::" + at[strings.LastIndexByte(at, '.')+1:]}}
	}
	return w.made(config.KindPod, ns, fmt.Sprintf("p%d", i), p, nil)
}

func (w *World) putNamespaceLabels(ns string) {
	key := config.Key{Kind: config.KindNamespace, Name: ns}
	o := w.Objects[key]
	if o == nil {
		o = w.made(config.KindNamespace, "", ns, &corev1.Namespace{}, nil)
	}
	o.Labels = pick(w, []map[string]string{{"tier": "one"}, {"tier": "two", "team": "x"}})
	w.put(o)
}

// Policy is a random policy for one of the hosts.
func (w *World) Policy(ns string, hosts []string) *config.Object {
	p := &v1alpha1.EgressPolicy{}
	if w.rand.IntN(3) == 0 {
		if labels := pick(w, PeopleLabels); labels != nil {
			p.Selector = &v1alpha1.WorkloadSelector{MatchLabels: labels}
		}
	}
	if w.rand.IntN(4) == 0 {
		p.ServiceAccounts = w.few(Accounts)
	}
	root := ns == "istio-system"
	if root && w.rand.IntN(2) == 0 {
		p.Namespaces = &v1alpha1.NamespaceSelector{}
		if w.rand.IntN(2) == 0 {
			p.Namespaces.Names = w.few(Namespaces)
		}
		if len(p.Namespaces.Names) == 0 || w.rand.IntN(3) == 0 {
			p.Namespaces.MatchLabels = map[string]string{"tier": pick(w, []string{"one", "two"})}
		}
	}
	if w.rand.IntN(4) == 0 {
		p.Mode = v1alpha1.Mode_Observe
	}
	for i := range w.rand.IntN(4) {
		p.Rules = append(p.Rules, w.policyRule(root, i, hosts))
	}
	if len(p.Rules) == 0 || w.rand.IntN(3) == 0 {
		p.Default = pick(w, []v1alpha1.Action{v1alpha1.Action_Allow, v1alpha1.Action_Allow, v1alpha1.Action_Deny})
	}
	return w.aged(w.made(config.KindEgressPolicy, ns, fmt.Sprintf("p%d", w.rand.IntN(6)), p, nil))
}

// few is one or several of a list.
func (w *World) few(of []string) []string {
	out := []string{}
	for _, s := range of {
		if w.rand.IntN(2) == 0 {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		out = append(out, pick(w, of))
	}
	return out
}

// PolicyPaths are what rules name, and PathsTried are what is asked for.
var (
	PolicyPaths = []string{"/", "/api", "/api/**", "/api/*", "/*/x", "/**/x", "/api/**/y", "/b*", "/admin/"}
	PathsTried  = []string{
		"", "/", "/api", "/api/", "/api/x", "/api/x/y", "/api/x/z/y", "/API/x", "/x", "/b", "/bcd", "/b/c", "/admin", "/admin/", "/admin//", "/api?x=1", "/api/x?y=/../z", "/api/../x", "/./api",
		"//api", "/api/%2e%2e/x", "/api%2fx", "/api;v=1/x", `/api\x`, "/%61pi", "/%41pi", "/caf%C3%A9", "/a%20b", "/api/%2541", "/z?/x", "/api/?/y", "/z?q=/api/x", "/api/x//?", "/x/..?y",
	}
)

func (w *World) policyRule(root bool, i int, hosts []string) *v1alpha1.Rule {
	one := func(in int) bool { return w.rand.IntN(in) == 0 }
	r := &v1alpha1.Rule{Action: pick(w, []v1alpha1.Action{v1alpha1.Action_Allow, v1alpha1.Action_Deny})}
	if one(2) {
		r.Name = fmt.Sprintf("rule-%d", i)
	}
	if !one(4) {
		for range 1 + w.rand.IntN(2) {
			r.Hosts = append(r.Hosts, w.policyHost(hosts))
		}
	}
	if one(4) {
		r.Ports = pick(w, [][]uint32{{80}, {443}, {80, 8080}, {443, 5432}, {9000}})
	}
	if one(4) {
		r.Protocols = pick(w, [][]string{{"HTTP"}, {"TLS"}, {"TCP"}, {"HTTP", "TLS"}})
	}
	if one(6) {
		r.Methods = pick(w, [][]string{{"GET"}, {"POST", "PUT"}})
	}
	if one(4) {
		r.Paths = w.few(PolicyPaths)
	}
	if one(8) {
		r.Headers = []*v1alpha1.HeaderMatch{{Name: pick(w, []string{"x-team", "X-Team"}), Value: pick(w, []string{"a", "*", "a*", "*b", "a.b"})}}
	}
	if one(6) {
		r.NotBefore = timestamppb.New(PolicyTime.Add(time.Duration(w.rand.IntN(3)-1) * time.Second))
	}
	if one(6) {
		r.Expires = timestamppb.New(PolicyTime.Add(time.Duration(w.rand.IntN(3)) * time.Second))
	}
	if one(4) {
		r.Reason, r.Owner = pick(w, []string{"because it is so", "100% | [sure]"}), "team|a"
	}
	r.Final = root && r.Action == v1alpha1.Action_Allow && one(3)
	r.Unregistered = root && r.Action == v1alpha1.Action_Allow && len(r.Hosts) > 0 && !slices.Contains(r.Hosts, "*") && one(2)
	return r
}

// policyHost is one of the hosts, or what covers it.
func (w *World) policyHost(hosts []string) string {
	h := pick(w, hosts)
	switch w.rand.IntN(5) {
	case 0:
		return "*"
	case 1, 2:
		if _, suffix, ok := strings.Cut(h, "."); ok && suffix != "" && !strings.ContainsAny(h, ":/") {
			return "*." + strings.TrimPrefix(suffix, "*.")
		}
	}
	return h
}
