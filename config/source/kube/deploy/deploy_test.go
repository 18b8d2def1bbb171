package deploy

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/e2e/world"
)

func TestMain(m *testing.M) {
	leaks.Verify(m,
		goleak.IgnoreAnyFunction("github.com/sallyport/sallyport/e2e/world.startForever"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"), goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
}

const (
	namespace  = "shop"
	controller = "example.com/ours"
	system     = "sallyport-system" // the control plane's namespace
)

// scene is an API server with a keeper at work.
type scene struct {
	*testing.T
	kube     kubernetes.Interface
	gateways gatewayclient.Interface
	states   chan told

	mu      sync.Mutex
	classes map[string]string // what is wrong with their parameters
}

type told struct {
	key   types.NamespacedName
	state *State
}

// crds are the API's, of the module.
func crds(t *testing.T) []string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, kind := range []string{"gatewayclasses", "gateways", "listenersets"} {
		files = append(files, filepath.Join(strings.TrimSpace(string(dir)), "config/crd/standard/gateway.networking.k8s.io_"+kind+".yaml"))
	}
	return files
}

// render gives one port for each listener.
func render(g *gatewayv1.Gateway, sets []*gatewayv1.ListenerSet, parameters []Parameters) ([]Object, error) {
	if g.Annotations["wrong"] != "" {
		return nil, fmt.Errorf("metadata.annotations[wrong]: %q: remove it", g.Annotations["wrong"])
	}
	meta := metav1.ObjectMeta{
		Name: g.Name + "-" + string(g.Spec.GatewayClassName), Namespace: g.Namespace, Labels: map[string]string{gatewayv1.GatewayNameLabelKey: g.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g, schema.FromAPIVersionAndKind(gatewayv1.GroupVersion.String(), "Gateway"))},
	}
	service := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	for _, l := range g.Spec.Listeners {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: string(l.Name), Port: l.Port, Protocol: corev1.ProtocolTCP})
	}
	for _, s := range sets {
		for _, l := range s.Spec.Listeners {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: s.Namespace + "-" + string(l.Name), Port: l.Port, Protocol: corev1.ProtocolTCP})
		}
	}
	labels := map[string]string{"app": g.Name}
	deployment := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy", Image: "proxy"}}}},
	}}
	account := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta}
	return parametrized([]Object{account, deployment, service}, meta, parameters)
}

func start(t *testing.T) *scene {
	t.Helper()
	server := apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true}).Config
	s := &scene{T: t, kube: kubernetes.NewForConfigOrDie(server), gateways: gatewayclient.NewForConfigOrDie(server), states: make(chan told, 1000), classes: map[string]string{}}
	for _, ns := range []string{namespace, "other", system} {
		_, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		s.must(err)
	}
	s.run(server)
	s.must(apiserver.ApplyCRDs(t.Context(), server, crds(t)...)) // they come when the keeper waits for them
	s.becomes("the class is made", func() error {
		c, err := s.gateways.GatewayV1().GatewayClasses().Get(t.Context(), "ours", metav1.GetOptions{})
		if err == nil && c.Spec.ControllerName != controller {
			err = fmt.Errorf("it is %s's", c.Spec.ControllerName)
		}
		return err
	})
	return s
}

func (s *scene) run(server *rest.Config) {
	k, err := New(server, Options{
		Controller: controller, Classes: []string{"ours"}, Render: render, AskAgain: 50 * time.Millisecond, RetryMin: 50 * time.Millisecond, RetryMax: time.Second,
		Namespace: system, ClassDefaults: true, Check: check,
		Changed: func(key types.NamespacedName, state *State) { s.states <- told{key, state} },
		ClassChanged: func(class, problem string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.classes[class] = problem
		},
	})
	s.must(err)
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("Run: %v", err)
		}
	})
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) becomes(what string, f func() error) {
	s.Helper()
	if err := world.Within(s.Context(), time.Minute, f); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// state waits for what is told of a Gateway, until it is as wanted.
func (s *scene) state(name string, wanted func(*State) bool) {
	s.Helper()
	limit := time.After(time.Minute)
	var last *State
	for {
		select {
		case t := <-s.states:
			if t.key.Name != name {
				continue
			}
			if last = t.state; wanted(last) {
				return
			}
		case <-limit:
			s.Fatalf("the state of %s is %+v", name, last)
		}
	}
}

func (s *scene) gateway(name, class string) *gatewayv1.Gateway {
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: gatewayv1.ObjectName(class),
			Listeners:        []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
			AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: new(gatewayv1.NamespacesFromSame)}},
		},
	}
}

func (s *scene) create(g *gatewayv1.Gateway) *gatewayv1.Gateway {
	s.Helper()
	g, err := s.gateways.GatewayV1().Gateways(namespace).Create(s.Context(), g, metav1.CreateOptions{})
	s.must(err)
	return g
}

func (s *scene) patch(name, patch string) {
	s.Helper()
	_, err := s.gateways.GatewayV1().Gateways(namespace).Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.must(err)
}

// ports waits until a Service has these ports.
func (s *scene) ports(name string, want ...int32) {
	s.Helper()
	s.becomes(fmt.Sprintf("%s has the ports %v", name, want), func() error {
		service, err := s.kube.CoreV1().Services(namespace).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var has []int32
		for _, p := range service.Spec.Ports {
			has = append(has, p.Port)
		}
		if fmt.Sprint(has) != fmt.Sprint(want) {
			return fmt.Errorf("it has %v", has)
		}
		return nil
	})
}

// gone waits until there is no Service of a name.
func (s *scene) gone(name string) {
	s.Helper()
	s.becomes(name+" is gone", func() error {
		_, err := s.kube.CoreV1().Services(namespace).Get(s.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// TestKeeper keeps Gateways' objects on a real API server, which has no garbage collector.
func TestKeeper(t *testing.T) {
	s := start(t)
	services := s.kube.CoreV1().Services(namespace)

	s.create(s.gateway("web", "ours"))
	s.state("web", func(state *State) bool { return state != nil && state.Problem == "" && len(state.Addresses) == 0 })
	s.ports("web-ours", 80)
	deployment, err := s.kube.AppsV1().Deployments(namespace).Get(t.Context(), "web-ours", metav1.GetOptions{})
	s.must(err)
	if owner := metav1.GetControllerOf(deployment); owner == nil || owner.Kind != "Gateway" || owner.Name != "web" {
		t.Errorf("the owner is %+v", owner)
	}

	t.Run("the load balancer's address is told", func(t *testing.T) {
		_, err := services.Patch(t.Context(), "web-ours", types.MergePatchType, []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`), metav1.PatchOptions{}, "status")
		s.must(err)
		s.state("web", func(state *State) bool {
			return state != nil && len(state.Addresses) == 1 && state.Addresses[0].Value == "192.0.2.7" && *state.Addresses[0].Type == gatewayv1.IPAddressType
		})
	})
	t.Run("what somebody changes is repaired, and what others write stays", func(t *testing.T) {
		_, err := s.kube.AppsV1().Deployments(namespace).Patch(t.Context(), "web-ours", types.StrategicMergePatchType,
			[]byte(`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"proxy","image":"another"}]}}}}`), metav1.PatchOptions{FieldManager: "somebody"})
		s.must(err)
		s.becomes("the image is as it was", func() error {
			d, err := s.kube.AppsV1().Deployments(namespace).Get(t.Context(), "web-ours", metav1.GetOptions{})
			if err == nil && (d.Spec.Template.Spec.Containers[0].Image != "proxy" || *d.Spec.Replicas != 3) {
				err = fmt.Errorf("%s, %d replicas", d.Spec.Template.Spec.Containers[0].Image, *d.Spec.Replicas)
			}
			return err
		})
		s.must(services.Delete(t.Context(), "web-ours", metav1.DeleteOptions{}))
		s.ports("web-ours", 80)
	})
	t.Run("listeners, and those of ListenerSets that are let in", func(t *testing.T) {
		s.patch("web", `{"spec":{"listeners":[{"name":"http","port":80,"protocol":"HTTP"},{"name":"more","port":8080,"protocol":"HTTP"}]}}`)
		s.ports("web-ours", 80, 8080)
		for _, ns := range []string{"other", namespace} { // from another namespace none is let in
			set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Name: "set", Namespace: ns}, Spec: gatewayv1.ListenerSetSpec{
				ParentRef: gatewayv1.ParentGatewayReference{Name: "web", Namespace: new(gatewayv1.Namespace(namespace))},
				Listeners: []gatewayv1.ListenerEntry{{Name: "set", Port: 9090, Protocol: gatewayv1.HTTPProtocolType}},
			}}
			_, err := s.gateways.GatewayV1().ListenerSets(ns).Create(t.Context(), set, metav1.CreateOptions{})
			s.must(err)
		}
		s.ports("web-ours", 80, 8080, 9090)
		s.must(s.gateways.GatewayV1().ListenerSets(namespace).Delete(t.Context(), "set", metav1.DeleteOptions{}))
		s.ports("web-ours", 80, 8080)
	})
	t.Run("nobody's object is taken over", func(t *testing.T) {
		theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "taken-ours"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9}}}}
		_, err := services.Create(t.Context(), theirs, metav1.CreateOptions{})
		s.must(err)
		s.create(s.gateway("taken", "ours"))
		s.state("taken", func(state *State) bool {
			return state != nil && strings.Contains(state.Problem, "services shop/taken-ours is there already")
		})
		s.ports("taken-ours", 9)
		s.must(services.Delete(t.Context(), "taken-ours", metav1.DeleteOptions{}))
		s.state("taken", func(state *State) bool { return state != nil && state.Problem == "" })
		s.ports("taken-ours", 80)
	})
	t.Run("what cannot be deployed stays as it was, and the state says why", func(t *testing.T) {
		s.patch("web", `{"metadata":{"annotations":{"wrong":"yes"}},"spec":{"listeners":[{"name":"http","port":81,"protocol":"HTTP"}]}}`)
		s.state("web", func(state *State) bool { return state != nil && strings.Contains(state.Problem, `"yes": remove it`) })
		s.ports("web-ours", 80, 8080)
		s.patch("web", `{"metadata":{"annotations":{"wrong":null}}}`)
		s.ports("web-ours", 81)
	})
	t.Run("another's class is another's", func(t *testing.T) {
		_, err := s.gateways.GatewayV1().GatewayClasses().Create(t.Context(), &gatewayv1.GatewayClass{
			ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: "example.com/theirs"},
		}, metav1.CreateOptions{})
		s.must(err)
		foreign := s.create(s.gateway("foreign", "theirs"))
		made, err := render(foreign, nil, nil)
		s.must(err)
		service := made[2].(*corev1.Service) // made by whoever that is
		_, err = services.Create(t.Context(), service, metav1.CreateOptions{})
		s.must(err)
		s.patch("web", `{"spec":{"gatewayClassName":"theirs"}}`)
		s.gone("web-ours")
		s.state("web", func(state *State) bool { return state == nil })
		s.ports("foreign-theirs", 80)
	})
}
