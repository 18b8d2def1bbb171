package chart

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// account is the API as a service account of the release sees it.
func (c *cluster) account(name string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return config
}

func (c *cluster) asAccount(t *testing.T, account string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.account(account))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// access is a line of the tables below: verbs on a resource, GROUP/RESOURCE[/SUBRESOURCE], in a namespace (all when
// empty), with a name (any when empty).
type access struct{ verbs, resource, namespace, name string }

func (c *cluster) ask(t *testing.T, account string, a access) (allowed map[string]bool) {
	t.Helper()
	client, allowed := c.asAccount(t, account), map[string]bool{}
	group, resource, _ := strings.Cut(a.resource, "/")
	resource, sub, _ := strings.Cut(resource, "/")
	for verb := range strings.FieldsSeq(a.verbs) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: a.namespace, Name: a.name,
			},
		}}
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		allowed[verb] = review.Status.Allowed
	}
	return allowed
}

func (c *cluster) accountsMay(t *testing.T) {
	const read, kept = "get list watch", "get list watch create patch delete"
	for account, lines := range map[string][]access{
		"sallyport": {
			{read, "/namespaces", "", ""}, {read, "/nodes", "", ""}, {read, "/services", "", ""}, {read, "/pods", "shop", ""},
			{read, "discovery.k8s.io/endpointslices", "", ""},
			{read, "apiextensions.k8s.io/customresourcedefinitions", "", ""},
			{read, "networking.istio.io/serviceentries", "", ""}, {read, "networking.istio.io/gateways", "", ""},
			{read, "networking.istio.io/virtualservices", "", ""}, {read, "networking.istio.io/destinationrules", "", ""},
			{read, "networking.istio.io/sidecars", "", ""}, {read, "security.istio.io/authorizationpolicies", "", ""},
			{read, "telemetry.istio.io/telemetries", "", ""}, {read, "extensions.istio.io/wasmplugins", "", ""},
			{read, "egress.sallyport.io/egresspolicies", "", ""}, {"patch", "egress.sallyport.io/egresspolicies/status", "shop", "checkout"},
			{"patch", "security.istio.io/peerauthentications/status", "shop", "default"},
			{"patch", "networking.istio.io/serviceentries/status", "shop", "external"},
			{"create", "authentication.k8s.io/tokenreviews", "", ""},
			{kept, "apps/deployments", "shop", ""}, {kept, "/services", "shop", ""}, {kept, "/serviceaccounts", "shop", ""}, // gatewayAPI.enabled
			{kept, "autoscaling/horizontalpodautoscalers", "shop", ""}, {kept, "policy/poddisruptionbudgets", "shop", ""},
			{"list watch", "/configmaps", "kube-public", ""}, // gatewayAPI.parametersNamespaces
			{read, "gateway.networking.k8s.io/gateways", "", ""}, {"patch", "gateway.networking.k8s.io/gateways/status", "shop", "web"},
			{"create", "gateway.networking.k8s.io/gatewayclasses", "", ""},
			{"create", "/configmaps", "shop", ""},
			{"get list update delete", "/configmaps", "shop", "istio-ca-root-cert"},
			{"get", "/secrets", namespace, "cacerts"},
			{"get update", "/secrets", namespace, "istio-ca-secret"},
			{"create", "/secrets", namespace, ""},
			{"get list watch", "/secrets", "default", ""}, // credentials.namespaces
			{"create", "coordination.k8s.io/leases", namespace, ""},
			{"get update", "coordination.k8s.io/leases", namespace, "sallyport-leader"},
			{"get update", "admissionregistration.k8s.io/mutatingwebhookconfigurations", "", "sallyport-injector-" + namespace},
			{"get update", "admissionregistration.k8s.io/validatingwebhookconfigurations", "", "sallyport-validator-" + namespace},
		},
		"sallyport-ambient": {{"get", "apps/daemonsets", namespace, "sallyport-ambient"}},
		"sallyport-audit": { // consoleConfig
			{read, "/namespaces", "", ""}, {read, "/pods", "shop", ""}, {read, "/services", "shop", ""}, {read, "discovery.k8s.io/endpointslices", "shop", ""},
			{read, "egress.sallyport.io/egresspolicies", "shop", ""}, {read, "networking.istio.io/serviceentries", "shop", ""}, {read, "networking.istio.io/workloadentries", "shop", ""},
			{read, "gateway.networking.k8s.io/httproutes", "shop", ""}, {read, "security.istio.io/authorizationpolicies", "shop", ""},
		},
		"sallyport-node": {{read, "/namespaces", "", ""}, {read, "/nodes", "", ""}, {read, "/pods", "", ""}, {read, "/services", "", ""}},
	} {
		for _, line := range lines {
			for verb, allowed := range c.ask(t, account, line) {
				if !allowed {
					t.Errorf("%s may not %s %+v", account, verb, line)
				}
			}
		}
	}
}

func (c *cluster) accountsMayNot(t *testing.T) {
	const all, writes = "get list watch create update patch delete deletecollection", "create update patch delete deletecollection"
	for account, lines := range map[string][]access{
		"sallyport": {
			{all, "/secrets", "shop", ""}, {all, "/secrets", "shop", "istio-ca-secret"}, {all, "/secrets", "kube-system", "cacerts"},
			{"get list watch update patch delete", "/secrets", namespace, ""}, {"get", "/secrets", namespace, "somebodys"},
			{"list watch update patch delete", "/secrets", namespace, "cacerts"}, {"delete", "/secrets", namespace, "istio-ca-secret"},
			{"get list watch update patch delete", "/configmaps", "shop", ""}, {"get update", "/configmaps", "kube-system", "coredns"},
			{"get update patch delete", "/configmaps", "kube-public", ""}, {"list watch", "/secrets", "kube-public", ""}, {"list watch", "/configmaps", namespace, ""},
			{"update deletecollection", "autoscaling/horizontalpodautoscalers", "shop", ""}, {"update deletecollection", "policy/poddisruptionbudgets", "shop", ""},
			{all, "/pods/eviction", "shop", ""}, {"get update patch", "apps/deployments/scale", "shop", ""},
			{"create update patch delete", "/pods", "shop", ""}, {"create", "/pods/exec", "shop", "web"}, {"get", "/pods/log", "shop", "web"},
			{"update deletecollection", "/services", "shop", ""}, {"create update patch delete", "/namespaces", "", ""},
			{"create update patch delete", "networking.istio.io/serviceentries", "shop", ""},
			{"create update patch delete", "egress.sallyport.io/egresspolicies", "shop", ""},
			{"update patch delete create", "apiextensions.k8s.io/customresourcedefinitions", "", ""},
			{"create", "/serviceaccounts/token", namespace, "sallyport-audit"}, {"update deletecollection", "/serviceaccounts", "", ""},
			{"impersonate", "/users", "", ""}, {"escalate bind", "rbac.authorization.k8s.io/clusterroles", "", ""},
			{all, "rbac.authorization.k8s.io/clusterrolebindings", "", ""},
			{"get update", "admissionregistration.k8s.io/mutatingwebhookconfigurations", "", "somebodys"},
			{"create delete", "admissionregistration.k8s.io/mutatingwebhookconfigurations", "", "sallyport-injector-" + namespace},
			{"get update", "coordination.k8s.io/leases", namespace, "somebodys"}, {all, "coordination.k8s.io/leases", "kube-node-lease", ""},
			{"create update patch delete", "/nodes", "", ""}, {"patch update", "/nodes/status", "", ""}, {all, "/persistentvolumeclaims", namespace, ""}, {"update deletecollection", "apps/deployments", "", ""}, {all, "apps/daemonsets", "", ""}, {all, "apps/statefulsets", "", ""},
			{"create update patch delete", "gateway.networking.k8s.io/gateways", "shop", ""}, {"update patch delete", "gateway.networking.k8s.io/gatewayclasses", "", ""},
		},
		"sallyport-node": {
			{all, "/secrets", "", ""}, {all, "/configmaps", "", ""}, {"create update patch delete", "/pods", "", ""},
			{"create update patch delete", "/nodes", "", ""}, {"patch update", "/nodes/status", "", ""}, {"create", "/pods/exec", "", ""},
		},
		"sallyport-ambient": {
			{all, "/secrets", "", ""}, {all, "/pods", "", ""}, {all, "/nodes", "", ""}, {all, "/configmaps", namespace, ""}, {"list watch create update patch delete", "apps/daemonsets", namespace, ""},
			{"update patch delete", "apps/daemonsets", namespace, "sallyport-ambient"}, {"get", "apps/daemonsets", namespace, "sallyport-node"}, {"create", "/serviceaccounts/token", namespace, "sallyport-ambient"},
		},
		"istio-egressgateway": {{all, "/secrets", "", ""}, {all, "/secrets", namespace, ""}, {all, "/pods", "", ""}, {all, "/services", namespace, ""}},
		"sallyport-audit": {
			{all, "/secrets", "", ""}, {all, "/secrets", namespace, ""}, {writes, "/pods", "", ""}, {all, "/configmaps", namespace, ""}, {all, "/nodes", "", ""}, {all, "networking.istio.io/envoyfilters", "", ""},
			{writes, "networking.istio.io/serviceentries", "shop", ""}, {writes, "egress.sallyport.io/egresspolicies", "shop", ""}, {"create", "/pods/exec", "", ""}, {"impersonate", "/users", "", ""},
		},
	} {
		for _, line := range lines {
			for verb, allowed := range c.ask(t, account, line) {
				if allowed {
					t.Errorf("%s may %s %+v", account, verb, line)
				}
			}
		}
	}
	_, err := c.asAccount(t, "sallyport").CoreV1().Secrets(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing all Secrets: %v, want that it is forbidden", err)
	}
}
