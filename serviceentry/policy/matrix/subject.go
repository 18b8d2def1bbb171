package matrix

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Subject is the workloads of a service account that no policy and no Sidecar tells apart.
type Subject struct {
	Namespace string            `json:"namespace"`
	Account   string            `json:"serviceAccount"`
	Labels    map[string]string `json:"labels,omitempty"`    // of the first of them
	Workloads []string          `json:"workloads,omitempty"` // none where only a policy, or a Sidecar, speaks of such
}

func (s Subject) String() string { return s.Namespace + "/" + s.Account }

func (s Subject) workload() policy.Workload {
	w := policy.Workload{Namespace: s.Namespace, Name: s.Account, Account: s.Account, Labels: s.Labels}
	if len(s.Workloads) > 0 {
		w.Name = s.Workloads[0]
	}
	return w
}

// Subjects gives those that Pods and WorkloadEntries are, in order, and those that policies and Sidecars speak of.
func Subjects(s *registry.Snapshot, objects []*config.Object) []Subject {
	g := grouping{snap: s, by: map[string]*Subject{}}
	objects = slices.SortedFunc(slices.Values(objects), func(a, b *config.Object) int { return a.Key.Compare(b.Key) })
	for _, o := range objects {
		if w, ok := workloadOf(o); ok {
			g.add(w, o.Name)
		}
	}
	for _, ns := range s.PolicedNamespaces() {
		for _, p := range s.Policies(ns) {
			g.addNamed(p)
		}
	}
	for _, o := range objects {
		if o.Kind == config.KindSidecar && o.Namespace != s.Mesh.RootNamespace && !g.knows(o.Namespace) {
			g.add(policy.Workload{Namespace: o.Namespace, Account: "default"}, "")
		}
	}
	var out []Subject
	for _, key := range slices.Sorted(maps.Keys(g.by)) {
		out = append(out, *g.by[key])
	}
	return out
}

// workloadOf is what a Pod that runs, or a WorkloadEntry, is to policies.
func workloadOf(o *config.Object) (policy.Workload, bool) {
	w := policy.Workload{Namespace: o.Namespace, Name: o.Name, Labels: o.Labels}
	switch spec := o.Spec.(type) {
	case *corev1.Pod:
		w.Account = cmp.Or(spec.Spec.ServiceAccountName, "default")
		return w, spec.Status.Phase != corev1.PodSucceeded && spec.Status.Phase != corev1.PodFailed
	case *networking.WorkloadEntry:
		w.Account, w.Labels = cmp.Or(spec.ServiceAccount, "default"), maps.Clone(spec.Labels)
		if w.Labels == nil {
			w.Labels = map[string]string{}
		}
		for k, v := range o.Labels {
			w.Labels[k] = v
		}
		return w, true
	}
	return w, false
}

// grouping gathers workloads that are told apart by nothing.
type grouping struct {
	snap *registry.Snapshot
	by   map[string]*Subject
}

func (g grouping) add(w policy.Workload, name string) {
	key := g.key(w)
	if g.by[key] == nil {
		g.by[key] = &Subject{Namespace: w.Namespace, Account: w.Account, Labels: w.Labels}
	}
	if name != "" {
		g.by[key].Workloads = append(g.by[key].Workloads, name)
	}
}

func (g grouping) key(w policy.Workload) string {
	key := []string{w.Namespace, w.Account}
	set := g.snap.PolicySet(w.Namespace, w.Account, w.Labels)
	for _, p := range slices.Concat(set.Root, set.Own) {
		key = append(key, p.Key.String())
	}
	if scope := g.snap.Scope(w.Namespace, w.Labels); scope != nil {
		key = append(key, fmt.Sprintf("%v", scope.Key))
	}
	return strings.Join(key, "\x00")
}

// addNamed adds the workloads that a policy names, in case that there are none yet.
func (g grouping) addNamed(p *egresspolicy.Policy) {
	namespaces := []string{p.Key.Namespace}
	if p.Key.Namespace == g.snap.Mesh.RootNamespace {
		namespaces = nil
		if p.Namespaces != nil {
			namespaces = p.Namespaces.Names
		}
	}
	accounts := p.Accounts
	if len(accounts) == 0 {
		accounts = []string{"default"}
	}
	for _, ns := range namespaces {
		for _, account := range accounts {
			g.add(policy.Workload{Namespace: ns, Account: account, Labels: p.Labels}, "")
		}
	}
}

func (g grouping) knows(ns string) bool {
	for _, s := range g.by {
		if s.Namespace == ns {
			return true
		}
	}
	return false
}

// Known gives a workload the account and the labels that a Pod or WorkloadEntry of its name has among the objects, or else the account of
// its name, if pods run as it. What it has already wins.
func Known(w policy.Workload, objects []*config.Object) policy.Workload {
	for _, o := range objects {
		found, ok := workloadOf(o)
		if !ok || o.Namespace != w.Namespace || o.Name != w.Name && found.Account != w.Name {
			continue
		}
		w.Account = cmp.Or(w.Account, found.Account)
		if o.Name != w.Name {
			continue // labels of pods of one account may differ
		}
		labels := maps.Clone(found.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, w.Labels)
		w.Labels = labels
		return w
	}
	return w
}
