package controlplane

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

const (
	gatewayName = "istio-egressgateway"
	gatewayIP   = "10.9.0.5"
	gatewayID   = "router~" + gatewayIP + "~egress-1." + system + "~" + system + ".svc.cluster.local"
)

// gatewayPod writes the egress gateway's Service, with one pod that is ready, and gives a token of that.
func (c *inCluster) gatewayPod() string {
	c.Helper()
	ctx, labels := c.Context(), map[string]string{"istio": "egressgateway"}
	c.made(c.client.CoreV1().ServiceAccounts(system).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: gatewayName}}, metav1.CreateOptions{}))
	c.made(c.client.CoreV1().Services(system).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayName}, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{}))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "egress-1", Labels: labels},
		Spec:       corev1.PodSpec{ServiceAccountName: gatewayName, Containers: []corev1.Container{{Name: "istio-proxy", Image: "none"}}},
	}
	c.made(c.client.CoreV1().Pods(system).Create(ctx, pod, metav1.CreateOptions{}))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: gatewayIP, PodIPs: []corev1.PodIP{{IP: gatewayIP}}}
	c.made(c.client.CoreV1().Pods(system).UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
	ready, name, port, tcp := true, "https", int32(443), corev1.ProtocolTCP
	c.made(c.client.DiscoveryV1().EndpointSlices(system).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: gatewayName, Labels: map[string]string{discoveryv1.LabelServiceName: gatewayName}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{gatewayIP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: system, Name: "egress-1"},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
	}, metav1.CreateOptions{}))
	token, err := c.client.CoreV1().ServiceAccounts(system).CreateToken(ctx, gatewayName, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{"istio-ca"}, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "egress-1"},
	}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return token.Status.Token
}

// gateway asks for policies as the gateway's Envoy does, until ctx ends, and takes what it is sent unless it is told to refuse it.
func (c *inCluster) gateway(ctx context.Context, token string, refuses *atomic.Bool) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(c.secure()).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	ask := &discovery.DeltaDiscoveryRequest{
		Node: &core.Node{Id: gatewayID}, TypeUrl: resource.Extension.URL(),
		ResourceNamesSubscribe: []string{envoy.FilterRoot, envoy.FilterRootLed, envoy.FilterOwn, envoy.FilterOwnLed, "own/shop"},
	}
	for err = stream.Send(ask); err == nil; err = stream.Send(ask) {
		got, err := stream.Recv()
		if err != nil {
			return err
		}
		ask = &discovery.DeltaDiscoveryRequest{TypeUrl: got.TypeUrl, ResponseNonce: got.Nonce}
		if refuses.Load() {
			ask.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: "a field\nof no use"}
		}
	}
	return err
}

// TestEnforcedInCluster: `kubectl wait` for a policy ends when the gateway's pod said that it has that edition of it. Until then the status says what is
// missing, in the proxy's words where it refuses; and a control plane that starts takes back nothing of what was found.
func TestEnforcedInCluster(t *testing.T) {
	server := apiserver.StartWith(t, apiserver.Options{})
	c := beginInCluster(t, server.Config)
	token := c.gatewayPod()
	c.becomes("the API server trusts the webhook", func() bool {
		_, err := c.istio.NetworkingV1().ServiceEntries("shop").Create(t.Context(), external("external.test"), metav1.CreateOptions{})
		return err == nil
	})
	policies := dynamic.NewForConfigOrDie(server.Config).Resource(schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "egresspolicies"}).Namespace("shop")
	apply := func(name string, ports ...any) {
		t.Helper()
		o := egressPolicy(map[string]any{"hosts": []any{"external.test"}, "ports": ports, "action": "Allow"})
		o.SetName(name)
		if _, err := policies.Apply(t.Context(), name, o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	becomes := func(what, name, reason string) {
		t.Helper()
		c.becomes(what, func() bool {
			o, err := policies.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return enforcedOf(t, o).Reason == reason
		})
	}
	wait := func(condition string) {
		t.Helper()
		kubectl := exec.CommandContext(t.Context(), "kubectl", "wait", "-n", "shop", "egresspolicy/checkout", "--for=condition="+condition, "--timeout=120s")
		kubectl.Env = append(os.Environ(), "KUBECONFIG="+server.Kubeconfig)
		if out, err := kubectl.CombinedOutput(); err != nil {
			t.Fatalf("kubectl wait for %s: %v: %s", condition, err, out)
		}
	}
	apply("checkout", int64(443))
	becomes("the gateway's pod is not connected", "checkout", "GatewayNotConnected")

	var refuses atomic.Bool
	connected, disconnect := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- c.gateway(connected, token, &refuses) }()
	wait("Enforced")
	first, err := policies.Get(t.Context(), "checkout", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := statusOf(t, first); s.Proxies == nil || *s.Proxies != (condition.Proxies{Selected: 1, Current: 1}) || s.ObservedRevision == "" {
		t.Errorf("status %+v", s)
	}

	refuses.Store(true)
	apply("checkout", int64(443), int64(8443))
	wait("Enforced=false")
	becomes("the gateway refuses it", "checkout", "Refused")
	refuses.Store(false)
	apply("checkout", int64(443), int64(9443))
	wait("Enforced")

	apply("late", int64(443))
	becomes("another one is enforced, too", "late", "Enforced")
	odd := egressPolicy(map[string]any{"hosts": []any{"nobody.test"}, "action": "Allow"})
	odd.SetName("odd")
	if _, err := policies.Apply(t.Context(), "odd", odd, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	becomes("one with warnings is enforced, too", "odd", "Enforced")
	c.becomes("its warnings are said", func() bool {
		o, err := policies.Get(t.Context(), "odd", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return conditionOf(t, o, condition.Accepted).Reason == condition.Warned
	})
	listed, err := policies.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := watchtools.NewRetryWatcherWithContext(t.Context(), listed.GetResourceVersion(), policyWatch{policies})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	disconnect()
	<-gone
	c.end()
	_ = beginInCluster(t, server.Config)
	for _, port := range []int64{9443, 10443} { // an object that was written rests: by the second edition's time all others were written
		apply("late", port)
		o, err := policies.Get(t.Context(), "late", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		staysEnforced(t, seen, condition.Generation(o.GetGeneration()))
	}
}

// policyWatch begins watches anew where the API server ends one: its cache may not be as far as its store yet.
type policyWatch struct{ dynamic.ResourceInterface }

func (p policyWatch) WatchWithContext(ctx context.Context, from metav1.ListOptions) (watch.Interface, error) {
	return p.Watch(ctx, from)
}

// staysEnforced reads what becomes of policies, until it is said of late's generation that the gateway is not connected, and holds that checkout is enforced,
// and odd has its warnings, all the while.
func staysEnforced(t *testing.T, seen watch.Interface, generation condition.Generation) {
	t.Helper()
	over := time.After(soon)
	for {
		select {
		case e := <-seen.ResultChan():
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("%+v", e)
			}
			now := enforcedOf(t, o)
			if o.GetName() == "checkout" && now.Status != "True" {
				t.Errorf("what a control plane that starts says of a policy that was enforced: %+v", now)
			}
			if accepted := conditionOf(t, o, condition.Accepted); o.GetName() == "odd" && accepted.Reason != condition.Warned {
				t.Errorf("what a control plane that starts says of a policy that has warnings: %+v", accepted)
			}
			if o.GetName() == "late" && now.Reason == "GatewayNotConnected" && now.ObservedGeneration == generation {
				return
			}
		case <-over:
			t.Fatal("the new control plane says nothing of the policy that was edited")
		}
	}
}

// end stops the control plane, and waits for it.
func (c *inCluster) end() {
	c.stop()
	c.ended <- <-c.ended
}

func statusOf(t *testing.T, o *unstructured.Unstructured) condition.Status {
	t.Helper()
	text, err := json.Marshal(o.Object["status"])
	if err != nil {
		t.Fatal(err)
	}
	return condition.Parse(text)
}

func enforcedOf(t *testing.T, o *unstructured.Unstructured) condition.Condition {
	t.Helper()
	return conditionOf(t, o, condition.Enforced)
}

func conditionOf(t *testing.T, o *unstructured.Unstructured, kind string) condition.Condition {
	t.Helper()
	for _, c := range statusOf(t, o).Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition.Condition{}
}
