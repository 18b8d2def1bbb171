package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/mesh"
)

func TestGoodClusterSaysNothing(t *testing.T) {
	if found := Cluster(good(t), now); len(found) > 0 {
		t.Errorf("%v", found)
	}
	o := good(t)
	o.Mesh.OutboundAllowAny = false
	o.Pods = append(o.Pods, corev1.Pod{ // in a namespace that is not meshed
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "exporter"},
		Spec:       corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "x", SecurityContext: &corev1.SecurityContext{Privileged: ptr(true)}}}},
	})
	ended := plain("done")
	ended.Status.Phase = corev1.PodSucceeded
	o.Pods = append(o.Pods, ended)
	if found := Cluster(o, now); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

// open takes away what holds pods beside their proxies.
func open(o *Objects) { o.Policies = nil }

// onPods changes the application's pods.
func onPods(change func(*corev1.Pod)) func(*Objects) {
	return func(o *Objects) {
		for i := range o.Pods {
			change(&o.Pods[i])
		}
	}
}

func on(change func(*corev1.Container)) func(*Objects) {
	return onPods(func(p *corev1.Pod) { change(&p.Spec.Containers[0]) })
}

func TestPods(t *testing.T) {
	capability := func(name corev1.Capability) func(*Objects) {
		return on(func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{name}}}
		})
	}
	bare := func(o *Objects) { o.Pods = []corev1.Pod{plain("web-7d-a"), plain("web-7d-b")}; o.Proxies = nil }
	expectAll(t, map[string]expectation{
		"without a proxy":               {bare, `error pod web-7d-a and 1 more: Deployment shop/web: it runs without a proxy, though it is to have one`},
		"one pod without":               {func(o *Objects) { o.Pods[1] = plain("web-7d-b") }, `error pod web-7d-b: Deployment shop/web: it runs without a proxy`},
		"opted out by label":            {both(bare, onPods(func(p *corev1.Pod) { p.Labels["sidecar.istio.io/inject"] = "false" })), `warning pod web-7d-a and 1 more: Deployment shop/web: spec.template.metadata.labels["sidecar.istio.io/inject"]: "false": a pod of a meshed namespace has no proxy`},
		"opted out and not held":        {both(open, bare, onPods(func(p *corev1.Pod) { p.Labels["sidecar.istio.io/inject"] = "false" })), `error pod web-7d-a and 1 more: Deployment shop/web: spec.template.metadata.labels`},
		"opted out by annotation":       {both(bare, onPods(func(p *corev1.Pod) { p.Annotations["sidecar.istio.io/inject"] = "false" })), `spec.template.metadata.annotations["sidecar.istio.io/inject"]: "false"`},
		"neither true nor false":        {both(bare, onPods(func(p *corev1.Pod) { p.Labels["sidecar.istio.io/inject"] = "maybe" })), `error pod web-7d-a and 1 more: Deployment shop/web: spec.template.metadata.labels["sidecar.istio.io/inject"]: "maybe": the injector refuses its pods: is neither true nor false`},
		"the node's network":            {both(bare, onPods(func(p *corev1.Pod) { p.Spec.HostNetwork = true })), `error pod web-7d-a and 1 more: Deployment shop/web: spec.template.spec.hostNetwork: "true": the pod uses the node's network`},
		"of no owner":                   {both(bare, onPods(func(p *corev1.Pod) { p.OwnerReferences = nil })), `error Pod shop/web-7d-a: it runs without a proxy`},
		"of a StatefulSet":              {both(bare, onPods(func(p *corev1.Pod) { p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = "StatefulSet", "db" })), `StatefulSet shop/db: it runs without`},
		"of a CronJob":                  {both(bare, onPods(func(p *corev1.Pod) { p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = "Job", "nightly-29384756" })), `CronJob shop/nightly: it runs without`},
		"NET_RAW, held":                 {capability("NET_RAW"), `warning pod web-7d-a and 1 more: Deployment shop/web: spec.template.spec.containers["app"].securityContext.capabilities.add: "NET_RAW": it can send packets that the pod's traffic rules do not see; take it away`},
		"NET_RAW":                       {both(open, capability("NET_RAW")), `error pod web-7d-a and 1 more`},
		"CAP_NET_ADMIN":                 {both(open, capability("CAP_NET_ADMIN")), `"CAP_NET_ADMIN": it can change`},
		"privileged":                    {both(open, on(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)} })), `error pod web-7d-a and 1 more: Deployment shop/web: spec.template.spec.containers["app"].securityContext.privileged: "true"`},
		"the proxy's user":              {both(open, on(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr(int64(1337))} })), `error pod web-7d-a and 1 more: Deployment shop/web: spec.template.spec.containers["app"].securityContext.runAsUser: "1337": container "app" runs as the proxy`},
		"the proxy's group, of the pod": {onPods(func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsGroup: ptr(int64(1337))} }), `spec.template.spec.securityContext.runAsGroup: "1337"`},
		"a container added for a moment": {onPods(func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", SecurityContext: &corev1.SecurityContext{Privileged: ptr(true)}}}}
		}), `spec.template.spec.ephemeralContainers["debug"].securityContext.privileged`},
		"ports left out":       {both(open, onPods(func(p *corev1.Pod) { p.Annotations["traffic.sidecar.istio.io/excludeOutboundPorts"] = "443" })), `error pod web-7d-a and 1 more: Deployment shop/web: spec.template.metadata.annotations["traffic.sidecar.istio.io/excludeOutboundPorts"]: "443": connections to these ports are not caught`},
		"addresses left out":   {onPods(func(p *corev1.Pod) { p.Annotations["traffic.sidecar.istio.io/excludeOutboundIPRanges"] = "0.0.0.0/0" }), `warning pod web-7d-a and 1 more: Deployment shop/web: spec.template.metadata.annotations["traffic.sidecar.istio.io/excludeOutboundIPRanges"]: "0.0.0.0/0"`},
		"nothing caught":       {onPods(func(p *corev1.Pod) { p.Annotations["sidecar.istio.io/interceptionMode"] = "NONE" }), `"NONE": nothing is caught unless`},
		"settings leave out":   {func(o *Objects) { o.Injection.Redirect.ExcludeOutboundPorts = "9" }, `warning ConfigMap istio-system/sallyport-injector: data.config: redirect.excludeOutboundPorts: "9"`},
		"nothing else holds":   {open, `warning Namespace shop: "2 of 2 pods": nothing but their own proxies keeps these pods inside`},
		"nor in REGISTRY_ONLY": {both(open, func(o *Objects) { o.Mesh.OutboundAllowAny = false }), `error Namespace shop: "2 of 2 pods": nothing but their own proxies keeps these pods inside: one that gets around its proxy connects as it likes, though the mesh is REGISTRY_ONLY`},
		"an older proxy":       {onPods(func(p *corev1.Pod) { p.Spec.Containers[1].Image = "registry.example/sallyport-proxy:v0" }), `warning pod web-7d-a and 1 more: Deployment shop/web: spec.template.spec.containers["istio-proxy"].image: "registry.example/sallyport-proxy:v0": the proxy is not of the version that pods get now`},
		"not connected":        {func(o *Objects) { o.Proxies = o.Proxies[:1] }, `error pod web-7d-b: Deployment shop/web: its proxy is connected to no controller`},
		"not in sync":          {func(o *Objects) { o.Proxies[0].Synced = false }, `warning pod web-7d-a: Deployment shop/web: its proxy has not taken everything yet`},
		"ends nothing": {func(o *Objects) {
			o.Egress = []config.Object{{Key: key("EgressPolicy", "shop", "list"), Spec: &v1alpha1.EgressPolicy{}}}
			o.Proxies[0].Ends, o.Proxies[1].Ends = "false", "true"
		}, `warning pod web-7d-a: Deployment shop/web: nobody may end open connections at its proxy`},
		"refuses": {func(o *Objects) { o.Proxies[0].Refused = []string{"bad\n listener"} }, `error pod web-7d-a: Deployment shop/web: its proxy refuses a part of its configuration: bad listener`},
	})
}

// TestPodsOfNow: a pod that was made just now may not be connected yet; one that brings its own image means it.
func TestPodsOfNow(t *testing.T) {
	o := good(t)
	o.Proxies = nil
	onPods(func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(now.Add(-settle / 2))
		p.Annotations["sidecar.istio.io/proxyImage"], p.Spec.Containers[1].Image = "own:v9", "own:v9"
	})(o)
	if found := Cluster(o, now); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

// TestEndedContainer: an ephemeral container that has ended sends nothing any more.
func TestEndedContainer(t *testing.T) {
	o := good(t)
	onPods(func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "tried", SecurityContext: &corev1.SecurityContext{RunAsUser: ptr(int64(1337))}}}}
		p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "tried", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	})(o)
	if found := Cluster(o, now); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

// gatewayPod adds a pod of the gateway's, in a cluster with a policy.
func gatewayPod(o *Objects, args ...string) {
	o.Gateway.Spec.Selector = map[string]string{"istio": "egressgateway"}
	o.Egress = []config.Object{{Key: key("EgressPolicy", "shop", "list"), Spec: &v1alpha1.EgressPolicy{}}}
	o.Pods = append(o.Pods, corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "istio-egressgateway-1", Labels: o.Gateway.Spec.Selector},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "istio-proxy", Image: "registry.example/sallyport-proxy:v1", Args: append([]string{"proxy", "router"}, args...)}}},
	})
}

func TestSomebodyEndsConnections(t *testing.T) {
	o := good(t)
	gatewayPod(o, "--ender=/var/run/sallyport-ender/socket")
	if found := Cluster(o, now); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// TestGatewaysThatEndByThemselves: one without a container for it says so itself.
func TestGatewaysThatEndByThemselves(t *testing.T) {
	o := good(t)
	gatewayPod(o)
	o.Proxies = append(o.Proxies, Proxy{ID: "router~10.0.0.9~istio-egressgateway-1.istio-system~istio-system.svc.cluster.local", Synced: true, Ends: "true"})
	if found := Cluster(o, now); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

func TestControlPlane(t *testing.T) {
	controllers := func(images ...string) func(*Objects) {
		return func(o *Objects) {
			for i, image := range images {
				o.Pods = append(o.Pods, corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: fmt.Sprint("sallyport-", i), Labels: map[string]string{"app": "sallyport"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: image}}},
				})
			}
		}
	}
	bundle := func(texts ...string) func(*Objects) {
		return func(o *Objects) {
			all := strings.Join(texts, "")
			o.Bundles[system], o.Bundles["shop"] = all, all
			o.Injectors[0].Webhooks[0].ClientConfig.CABundle, o.Validators[0].Webhooks[0].ClientConfig.CABundle = []byte(all), []byte(all)
		}
	}
	expectAll(t, map[string]expectation{
		"who ends does not run": {func(o *Objects) {
			gatewayPod(o, "--ender=/var/run/sallyport-ender/socket")
			p := &o.Pods[len(o.Pods)-1]
			p.Spec.InitContainers = []corev1.Container{{Name: "ender", Image: "registry.example/sallyport-proxy:v1", Args: []string{"end", "--socket=/var/run/sallyport-ender/socket"}}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "ender", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
		}, `warning Pod istio-system/istio-egressgateway-1: its container ender does not run`},
		"nobody ends":      {func(o *Objects) { gatewayPod(o) }, `warning Pod istio-system/istio-egressgateway-1: nobody may end open connections`},
		"no control plane": {func(o *Objects) { o.Controller = nil }, `error Deployment istio-system/sallyport: there is no control plane: namespace istio-system has no Deployment sallyport, with pods of the label app=sallyport`},
		"none ready":       {func(o *Objects) { o.Controller.Status.ReadyReplicas = 0 }, `error Deployment istio-system/sallyport: status.readyReplicas: "0"`},
		"one ready":        {func(o *Objects) { o.Controller.Status.ReadyReplicas = 1 }, `warning Deployment istio-system/sallyport: status.readyReplicas: "1"`},
		"replicas differ":  {controllers("registry.example/sallyport:v1", "registry.example/sallyport:v2"), `warning Pod istio-system/sallyport-1: spec.containers[0].image: "registry.example/sallyport:v2": another replica runs`},
		"versions differ":  {controllers("registry.example:5000/sallyport:v2"), `warning ConfigMap istio-system/sallyport-injector: data.config: image: "registry.example/sallyport-proxy:v1": pods get a proxy of another version`},
		"no audit server":  {func(o *Objects) { o.Audit.Status.ReadyReplicas = 0 }, `error StatefulSet istio-system/sallyport-audit`},
		"no gateway":       {func(o *Objects) { o.Gateway = nil }, `error Service istio-system/istio-egressgateway: it is the mesh's default gateway, and there is no such Service`},
		"no endpoint":      {func(o *Objects) { o.Endpoints = nil }, `error Service istio-system/istio-egressgateway: the gateway has no ready endpoint`},
		"one endpoint": {func(o *Objects) {
			o.Endpoints[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr(false)}
		}, `warning Service istio-system/istio-egressgateway: the gateway has one`},
		"no injector":         {func(o *Objects) { o.Injectors = nil }, `error MutatingWebhookConfiguration sallyport-injector-istio-system: it is missing`},
		"injector ignored":    {func(o *Objects) { o.Injectors[0].Webhooks[0].FailurePolicy = ptr(admissionv1.Ignore) }, `warning MutatingWebhookConfiguration sallyport-injector-istio-system: webhooks["namespace.sidecar-injector.istio.io"].failurePolicy: "Ignore"`},
		"injector untrusted":  {func(o *Objects) { o.Injectors[0].Webhooks[0].ClientConfig.CABundle = []byte("x") }, `error MutatingWebhookConfiguration sallyport-injector-istio-system: webhooks["namespace.sidecar-injector.istio.io"].clientConfig.caBundle: "1 bytes": it is not the mesh's trust bundle`},
		"no validator":        {func(o *Objects) { o.Validators = nil }, `warning ValidatingWebhookConfiguration sallyport-validator-istio-system: it is missing`},
		"validator untrusted": {func(o *Objects) { o.Validators[0].Webhooks[0].ClientConfig.CABundle = nil }, `error ValidatingWebhookConfiguration sallyport-validator-istio-system: webhooks["rev.validation.istio.io"].clientConfig.caBundle: it is not`},
		"no bundle":           {func(o *Objects) { delete(o.Bundles, system) }, `error ConfigMap istio-system/istio-ca-root-cert: it is missing`},
		"no bundle for pods":  {func(o *Objects) { delete(o.Bundles, "shop") }, `error ConfigMap shop/istio-ca-root-cert: it is missing: pods with a proxy do not start`},
		"another bundle":      {func(o *Objects) { o.Bundles["shop"] = "x" }, `error ConfigMap shop/istio-ca-root-cert: data[root-cert.pem]: "1 bytes": it is not the control plane's`},
		"a root ends soon":    {bundle(root(t, "old", 10*24*time.Hour)), `warning ConfigMap istio-system/istio-ca-root-cert: data[root-cert.pem]: "CN=old": it expires on 2026-05-11, in 10 days; rotate the root`},
		"the root has ended":  {bundle(root(t, "old", -time.Hour)), `error ConfigMap istio-system/istio-ca-root-cert: data[root-cert.pem]: "CN=old": it has expired on 2026-05-01`},
		"one root has ended":  {bundle(root(t, "old", -time.Hour), root(t, "new", years)), `warning ConfigMap istio-system/istio-ca-root-cert: data[root-cert.pem]: "CN=old": this root has expired on 2026-05-01; another one is valid`},
		"a root is none":      {bundle("nonsense"), `error ConfigMap istio-system/istio-ca-root-cert: data[root-cert.pem]: it holds no certificate`},
		"a given CA ends": {func(o *Objects) {
			o.Signer = map[string]string{"Secret istio-system/cacerts: data[ca-cert.pem]": root(t, "given", 24*time.Hour)}
		}, `warning Secret istio-system/cacerts: data[ca-cert.pem]: "CN=given": it expires on 2026-05-02, in 1 days; put a new certificate into the Secret`},
		"a kind is missing":      {func(o *Objects) { delete(o.Kinds, "sidecars") }, `warning CustomResourceDefinition sidecars.networking.istio.io: it is missing`},
		"our kind is missing":    {func(o *Objects) { delete(o.Kinds, "egresspolicies") }, `warning CustomResourceDefinition egresspolicies.egress.sallyport.io: it is missing`},
		"the kind is missing":    {func(o *Objects) { delete(o.Kinds, "serviceentries") }, `error CustomResourceDefinition serviceentries.networking.istio.io`},
		"a right is missing":     {func(o *Objects) { o.Roles = slices.Delete(o.Roles, 1, 2) }, `error ServiceAccount istio-system/sallyport: "list endpointslices.discovery.k8s.io": the controller's ClusterRole does not allow this: it knows no endpoints`},
		"a rule ends in days":    {policyEnding(t, "2026-05-06T00:00:00Z", "Allow"), `warning EgressPolicy shop/pay: spec.rules[0].expires: "2026-05-06T00:00:00Z": it ends in 4 days: what it allows follows the rules behind it from then on, or is denied; write a later time`},
		"a denial ends":          {policyEnding(t, "2026-05-02T03:00:00Z", "Deny"), `what it denies follows the rules behind it from then on, or is open`},
		"the guard is not there": {func(o *Objects) { o.Guard = guardOf(2, 3) }, `error DaemonSet istio-system/sallyport-node: status.numberReady: "2 of 3"`},
	})
}

func guardOf(ready, nodes int32) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "sallyport-node"}, Status: appsv1.DaemonSetStatus{NumberReady: ready, DesiredNumberScheduled: nodes}}
}

// TestGuarded: whom a guard guards is for its arguments to say.
func TestGuarded(t *testing.T) {
	for args, want := range map[string]bool{
		"": true, "--namespaces shop": true, "--namespaces other": false, "--namespace-selector env=prod": false, "--namespace-selector a=b;istio-injection=enabled": true,
		"--exempt shop": false, "--exempt shop/app=web": false, "--exempt shop/app=other": true, "--allow 172.16.0.1/32 --on-exit=release": true, "--exempt =": false,
	} {
		o := &Objects{System: system, Guard: guardOf(1, 1), Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}}}}
		o.Guard.Spec.Template.Spec.Containers = []corev1.Container{{Args: append([]string{"guard", "--log-level=info"}, strings.Fields(args)...)}}
		pod := plain("web")
		pod.Labels = map[string]string{"app": "web"}
		if got := o.held(&pod); got != want {
			t.Errorf("%q: held %v", args, got)
		}
	}
}

// TestHeld: which policies limit where pods connect to.
func TestHeld(t *testing.T) {
	rule := func(cidr string, ports ...int32) networkingv1.NetworkPolicyEgressRule {
		r := networkingv1.NetworkPolicyEgressRule{}
		if cidr != "" {
			r.To = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}}
		}
		for _, p := range ports {
			r.Ports = append(r.Ports, networkingv1.NetworkPolicyPort{Port: ptr(intstr.FromInt32(p))})
		}
		return r
	}
	egress := []networkingv1.PolicyType{"Egress"}
	for name, tt := range map[string]struct {
		spec []networkingv1.NetworkPolicySpec
		held bool
	}{
		"none":                    {nil, false},
		"nothing leaves":          {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress}}, true},
		"about ingress":           {[]networkingv1.NetworkPolicySpec{{PolicyTypes: []networkingv1.PolicyType{"Ingress"}}}, false},
		"without types":           {[]networkingv1.NetworkPolicySpec{{Egress: []networkingv1.NetworkPolicyEgressRule{rule("10.0.0.0/8")}}}, true},
		"of other pods":           {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress, PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}, false},
		"everything":              {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress, Egress: []networkingv1.NetworkPolicyEgressRule{{}}}}, false},
		"everything, by block":    {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress, Egress: []networkingv1.NetworkPolicyEgressRule{rule("0.0.0.0/0")}}}, false},
		"half of everything":      {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress, Egress: []networkingv1.NetworkPolicyEgressRule{rule("128.0.0.0/1")}}}, false},
		"every IPv6 address":      {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress, Egress: []networkingv1.NetworkPolicyEgressRule{rule("::/0")}}}, false},
		"DNS everywhere":          {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress, Egress: []networkingv1.NetworkPolicyEgressRule{rule("", 53)}}}, true},
		"HTTPS everywhere":        {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress, Egress: []networkingv1.NetworkPolicyEgressRule{rule("", 53, 443)}}}, false},
		"one limits, one opens":   {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress}, {PolicyTypes: egress, Egress: []networkingv1.NetworkPolicyEgressRule{{}}}}, false},
		"a private block and DNS": {[]networkingv1.NetworkPolicySpec{{PolicyTypes: egress, Egress: []networkingv1.NetworkPolicyEgressRule{rule("10.0.0.0/8"), rule("fc00::/7"), rule("", 53)}}}, true},
	} {
		o := &Objects{System: system}
		for _, spec := range tt.spec {
			o.Policies = append(o.Policies, networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: spec})
		}
		pod := plain("web")
		if got := newSurvey(o, now).held(&pod); got != tt.held {
			t.Errorf("%s: held %v", name, got)
		}
		o.Guard = guardOf(3, 3)
		if !newSurvey(o, now).held(&pod) {
			t.Errorf("%s: the node guard holds it", name)
		}
		pod.Spec.HostNetwork = true
		if newSurvey(o, now).held(&pod) {
			t.Errorf("%s: nothing holds a pod on the node's network", name)
		}
	}
}

// TestUnread leaves checks out whose part is unknown, and no others.
func TestUnread(t *testing.T) {
	o := good(t)
	o.Controller, o.Gateway = nil, nil
	o.Unread = map[Part]error{PartController: errors.New("forbidden"), PartSigner: errors.New("forbidden")}
	if found := Cluster(o, now); len(found) != 1 || found[0].Key.Kind != "Service" {
		t.Errorf("%v", found)
	}
	if got := strings.Join(o.NotChecked(), "; "); got != "the CA's certificates in Secrets: forbidden; the controller's Deployment: forbidden" {
		t.Error(got)
	}
	if o.Complete() {
		t.Error("complete without the controller")
	}
	if delete(o.Unread, PartController); !o.Complete() {
		t.Error("incomplete for want of a Secret")
	}
}

func TestDirect(t *testing.T) {
	o := good(t)
	o.Mesh.DefaultGateway, o.Gateway, o.Endpoints = mesh.Gateway{}, nil, nil
	if found := Cluster(o, now); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

type expectation struct {
	change func(*Objects)
	want   string // "SEVERITY FINDING…" of one of the findings
}

func both(changes ...func(*Objects)) func(*Objects) {
	return func(o *Objects) {
		for _, c := range changes {
			c(o)
		}
	}
}

func expectAll(t *testing.T, table map[string]expectation) {
	for name, tt := range table {
		t.Run(name, func(t *testing.T) {
			o := good(t)
			tt.change(o)
			var said []string
			for _, f := range Cluster(o, now) {
				line := fmt.Sprintf("%s %s: %s", f.Severity, f.Where(), f.What())
				if strings.Contains(line, tt.want) {
					return
				}
				said = append(said, line)
				if f.Fix == "" || f.Severity != admission.Error && f.Severity != admission.Warning {
					t.Errorf("unfinished: %+v", f)
				}
			}
			t.Errorf("want %s\ngot  %s", tt.want, strings.Join(said, "\n     "))
		})
	}
}

// policyEnding is a policy as the API server gives it, with a rule that ends.
func policyEnding(t *testing.T, at, action string) func(*Objects) {
	t.Helper()
	return func(o *Objects) {
		o.Egress = policiesIn([]byte(`{"apiVersion": "egress.sallyport.io/v1alpha1", "kind": "EgressPolicy", "metadata": {"name": "pay", "namespace": "shop", "uid": "1", "managedFields": []},
			"spec": {"rules": [{"action": "` + action + `", "hosts": ["a.test"], "expires": "` + at + `"}, {"action": "Allow", "expires": "2027-01-01T00:00:00Z"}, {"action": "Allow", "expires": "2020-01-01T00:00:00Z"}]}, "status": {"conditions": []}}`))
		if len(o.Egress) != 1 {
			t.Fatalf("%d policies were read", len(o.Egress))
		}
	}
}
