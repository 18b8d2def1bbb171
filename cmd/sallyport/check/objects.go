package check

import (
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/sidecar/inject"
)

// Part is a part of what is read, for which a right may be missing.
type Part string

// The parts.
const (
	PartNamespaces = Part("namespaces")
	PartPods       = Part("pods")
	PartPolicies   = Part("networkpolicies")
	PartEgress     = Part("egresspolicies")
	PartGuard      = Part("the node guard's DaemonSet")
	PartController = Part("the controller's Deployment")
	PartAudit      = Part("the audit server's StatefulSet")
	PartGateway    = Part("the gateway's Service and EndpointSlices")
	PartInjection  = Part("the injector's settings")
	PartWebhooks   = Part("webhook configurations")
	PartBundles    = Part("trust bundles")
	PartKinds      = Part("the kinds that the API server knows")
	PartRights     = Part("the controller's roles")
	PartSigner     = Part("the CA's certificates in Secrets")
	PartProxies    = Part("what the controllers say of their proxies")
	PartAmbient    = Part("what nodes' agents say of the pods that they serve")
)

// Objects are what is looked at.
type Objects struct {
	System    string // the control plane's namespace
	Namespace string // look at the pods of this one only; "" for all
	Mesh      mesh.Config
	Injection inject.Settings

	Namespaces []corev1.Namespace
	Pods       []corev1.Pod
	Templates  []Template // of files
	Policies   []networkingv1.NetworkPolicy
	Egress     []config.Object   // EgressPolicies
	Guard      *appsv1.DaemonSet // nil when there is none, like the others
	Controller *appsv1.Deployment
	Audit      *appsv1.StatefulSet
	Gateway    *corev1.Service // the mesh's default one
	Endpoints  []discoveryv1.EndpointSlice
	Injectors  []admissionv1.MutatingWebhookConfiguration
	Validators []admissionv1.ValidatingWebhookConfiguration
	Bundles    map[string]string   // roots in PEM, by namespace
	Signer     map[string]string   // certificates in PEM, by "Secret NAMESPACE/NAME: KEY"
	Kinds      map[string]bool     // resources of networking.istio.io and egress.sallyport.io that are served
	Roles      []rbacv1.PolicyRule // what the controller's service account may do in the whole cluster
	Proxies    []Proxy
	Served     map[string][]Served // by node, what its agent says; nodes without one are not there

	// Unread are the parts that could not be read, and why. Checks that need one are left out.
	Unread map[Part]error
}

// Proxy is a connected proxy, as a controller knows it.
type Proxy struct {
	ID      string // sidecar~IP~POD.NAMESPACE~DOMAIN
	Synced  bool
	Refused []string // in Envoy's words
	Ends    string   // whether open connections can be ended there, "true" or "false"; "" of an agent that does not say
}

// Served is what a node's agent says of one of its pods in the mesh.
type Served struct {
	Pod string `json:"pod"` // NAMESPACE/NAME
	Why string `json:"why"` // why it is not served; "" when it is
}

// NotChecked says which parts could not be read, and why.
func (o *Objects) NotChecked() []string {
	var out []string
	for _, part := range slices.Sorted(maps.Keys(o.Unread)) {
		out = append(out, string(part)+": "+o.Unread[part].Error())
	}
	return out
}

// Complete says whether everything could be read but the CA's Secret, which few may read.
func (o *Objects) Complete() bool {
	for part := range o.Unread {
		if part != PartSigner {
			return false
		}
	}
	return true
}

func (o *Objects) read(parts ...Part) bool {
	return !slices.ContainsFunc(parts, func(p Part) bool { return o.Unread[p] != nil })
}
