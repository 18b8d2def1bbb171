package check

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sallyport/sallyport/config/admission"
)

// needed is what the controller does in the whole cluster.
var needed = []struct {
	group     string
	resources []string
	verbs     []string
	without   string
}{
	{"", []string{"namespaces", "nodes", "pods", "services"}, []string{"get", "list", "watch"}, "it knows no workloads"},
	{"discovery.k8s.io", []string{"endpointslices"}, []string{"get", "list", "watch"}, "it knows no endpoints"},
	{"networking.istio.io", []string{"serviceentries", "destinationrules", "gateways", "sidecars", "virtualservices"}, []string{"get", "list", "watch"}, "these objects have no effect"},
	{"egress.sallyport.io", []string{"egresspolicies"}, []string{"get", "list", "watch"}, "they deny nothing"},
	{"security.istio.io", []string{"authorizationpolicies", "peerauthentications", "requestauthentications"}, []string{"get", "list", "watch"}, "these objects are not enforced, and no status says so"},
	{"networking.istio.io", []string{"serviceentries/status"}, []string{"patch"}, "objects' status does not say what became of them"},
	{"egress.sallyport.io", []string{"egresspolicies/status"}, []string{"patch"}, "their status does not say what became of them"},
	{"networking.istio.io", []string{"workloadentries"}, []string{"create", "update", "delete"}, "no machine joins by a WorkloadGroup"},
	{"authentication.k8s.io", []string{"tokenreviews"}, []string{"create"}, "no new proxy gets a certificate"},
}

// rights judges what the controller's service account may do.
func (s *survey) rights() {
	of := key("ServiceAccount", s.System, "sallyport")
	for _, n := range needed {
		for _, resource := range n.resources {
			for _, verb := range n.verbs {
				if s.may(n.group, resource, verb) {
					continue
				}
				name := resource
				if n.group != "" {
					name += "." + n.group
				}
				s.add(admission.Error, of, "", verb+" "+name, "the controller's ClusterRole does not allow this: "+n.without, reinstall)
			}
		}
	}
}

func (s *survey) may(group, resource, verb string) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, rbacv1.ResourceAll)
	}
	return slices.ContainsFunc(s.Roles, func(r rbacv1.PolicyRule) bool {
		return len(r.ResourceNames) == 0 && has(r.APIGroups, group) && has(r.Resources, resource) && has(r.Verbs, verb)
	})
}
