package inforce

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/egress/console"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// rights are what the chart gives the audit server, and no more: TestOnAServer of the chart holds the two together.
const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads}
rules:
- {apiGroups: [""], resources: [namespaces, pods, services], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {apiGroups: [networking.istio.io], resources: [destinationrules, gateways, serviceentries, sidecars, virtualservices, workloadentries], verbs: [get, list, watch]}
- {apiGroups: [security.istio.io], resources: [authorizationpolicies, peerauthentications, requestauthentications], verbs: [get, list, watch]}
- {apiGroups: [egress.sallyport.io, gateway.networking.k8s.io], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reads}]
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`

// The rule names a Secret, which may not be read: nobody asks for it. At the HTTP port decisions would depend on it.
const rule = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: partner, namespace: shop}
spec: {host: a.test, trafficPolicy: {tls: {mode: MUTUAL, credentialName: client}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: shop}
spec: {hosts: [a.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}, {number: 80, name: http, protocol: HTTP}]}
`

var resources = map[string]string{
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Namespace": "namespaces", "DestinationRule": "destinationrules", "ServiceEntry": "serviceentries",
}

func apply(t *testing.T, access *rest.Config, text string) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(access)
	for part := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &o.Object); err != nil {
			t.Fatal(err)
		}
		gv, err := schema.ParseGroupVersion(o.GetAPIVersion())
		if err != nil {
			t.Fatal(err)
		}
		r := dynamic.ResourceInterface(client.Resource(gv.WithResource(resources[o.GetKind()])))
		if ns := o.GetNamespace(); ns != "" {
			r = client.Resource(gv.WithResource(resources[o.GetKind()])).Namespace(ns)
		}
		if _, err := r.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually tries until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(what)
		}
	}
}

// road is a way to the API server that can be closed.
type road struct {
	mu     sync.Mutex
	closed bool
	open   []net.Conn
}

func (r *road) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("the road is closed")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		r.open = append(r.open, c)
	}
	return c, err
}

func (r *road) close(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = is
	if is {
		for _, c := range r.open {
			_ = c.Close()
		}
		r.open = nil
	}
}

func defaults() (mesh.Config, error) {
	m := mesh.Default()
	m.OutboundAllowAny = false
	return m, nil
}

// run runs a reader until the test ends.
func run(t *testing.T, o Options) *Reader {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	r := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	return r
}

func allows(t *testing.T, c *console.Config, url string) bool {
	t.Helper()
	d, err := policy.Question{URL: url}.Destination()
	if err != nil {
		t.Fatal(err)
	}
	return policy.Decide(c.Snapshot, policy.Workload{Namespace: "shop", Name: "cart"}, d).Allowed
}

// TestReader: what is in force is known with the rights that are there, while somebody asks, with its age where the API server is away.
func TestReader(t *testing.T) {
	admin := apiserver.Start(t)
	apply(t, admin, rights)
	way := &road{}
	access := rest.CopyConfig(admin)
	access.Impersonate, access.Dial = rest.ImpersonationConfig{UserName: "reads"}, way.dial
	r := run(t, Options{Access: access, Mesh: defaults})

	var c *console.Config
	asks := func() bool {
		var err error
		if c, err = r.Config(t.Context()); err != nil {
			t.Log(err)
		}
		return err == nil
	}
	eventually(t, "there is an answer", asks)
	if allows(t, c, "http://a.test") || !c.InCluster || !c.AsOf.IsZero() {
		t.Errorf("%+v", c)
	}
	apply(t, admin, rule)
	eventually(t, "what is written counts", func() bool { return asks() && allows(t, c, "http://a.test") })
	for _, o := range c.Objects {
		if o.Key.Kind == config.KindSecret || o.Key.Kind == config.KindNode {
			t.Errorf("it reads %s", o.Key)
		}
	}
	way.close(true)
	eventually(t, "it is said that the API server is away", func() bool { return asks() && !c.AsOf.IsZero() })
	if !allows(t, c, "http://a.test") {
		t.Error("what was in force is forgotten")
	}
	way.close(false)
	eventually(t, "it is there again", func() bool { return asks() && c.AsOf.IsZero() })
}

// TestForgets: what nobody asks about is not held, and read again when somebody does.
func TestForgets(t *testing.T) {
	admin := apiserver.Start(t)
	r := run(t, Options{Access: admin, Mesh: defaults, Idle: time.Millisecond})
	ask := func() bool {
		_, err := r.Config(t.Context())
		return err == nil
	}
	for range 2 {
		eventually(t, "there is an answer", ask)
		eventually(t, "it is forgotten", func() bool { return r.current() == nil })
	}
}

// TestWhatCannotBeRead: who may not read a kind does not know what it would decide; settings that are wrong make no answer, and are read again.
func TestWhatCannotBeRead(t *testing.T) {
	admin := apiserver.Start(t)
	nobody := rest.CopyConfig(admin)
	apply(t, admin, strings.Replace(rights, "namespaces, pods, services", "namespaces, services", 1))
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "reads"}
	r := run(t, Options{Access: nobody, Mesh: defaults})
	eventually(t, "the refusal is told", func() bool {
		c, err := r.Config(t.Context())
		if c != nil {
			t.Fatal("there is an answer without pods")
		}
		return strings.Contains(err.Error(), "objects of kind Pod cannot be read") && strings.Contains(err.Error(), "list and watch pods")
	})
	apply(t, admin, rights)
	eventually(t, "with the right there is an answer", func() bool {
		c, _ := r.Config(t.Context())
		return c != nil
	})

	var mu sync.Mutex
	wrong := true
	settings := run(t, Options{Access: admin, Mesh: func() (mesh.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		if wrong {
			return mesh.Config{}, errors.New("settings: broken")
		}
		return defaults()
	}})
	if _, err := settings.Config(t.Context()); err == nil || err.Error() != "settings: broken" {
		t.Error(err)
	}
	mu.Lock()
	wrong = false
	mu.Unlock()
	eventually(t, "they are read again", func() bool {
		_, err := settings.Config(t.Context())
		return err == nil
	})
}
