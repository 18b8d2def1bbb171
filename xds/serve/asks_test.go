package serve_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
)

const authorizerCluster = "authorizer|9191||authz.test"

// providing is a mesh with a provider, and a policy that has it asked.
func providing(t *testing.T, objects ...*config.Object) (*lab, *config.Object) {
	t.Helper()
	cfg := mesh.Default()
	cfg.Authorizers = []mesh.Authorizer{{Name: "grpc", GRPC: true, Host: "authz.test", Port: 9191, Timeout: time.Second, StatusOnError: 403}}
	provider := &config.Object{Key: config.Key{Kind: config.KindServiceEntry, Namespace: cfg.RootNamespace, Name: "authz"}, Spec: &networking.ServiceEntry{
		Hosts: []string{"authz.test"}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC, ExportTo: []string{"."},
		Endpoints: []*networking.WorkloadEntry{{Address: "10.9.9.9"}}, Ports: []*networking.ServicePort{{Number: 9191, Name: "grpc", Protocol: "GRPC"}},
	}}
	policy := &config.Object{Key: config.Key{Kind: config.KindAuthorizationPolicy, Namespace: "default", Name: "asked"}, Spec: &security.AuthorizationPolicy{
		Action: security.AuthorizationPolicy_CUSTOM, ActionDetail: &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: "grpc"}},
		Rules: []*security.Rule{{}},
	}}
	return newLabOf(t, cfg, everybody, append(objects, provider)...), policy
}

// asking is a pod that has the policy.
func asking(t *testing.T) (*client, *config.Object) {
	t.Helper()
	l, policy := providing(t)
	c := l.filtering(node("app", "default"), envoy.FilterCustom, envoy.FilterAuthorizer)
	c.asked(policy)
	return c, policy
}

// filtering is a proxy with these filters.
func (l *lab) filtering(n *core.Node, filters ...string) *client {
	l.t.Helper()
	c := l.connect(n)
	c.ask(resource.Cluster)
	c.take(resource.Cluster)
	c.ask(resource.Endpoints, authorizerCluster)
	c.take(resource.Endpoints)
	c.ask(resource.Extension, filters...)
	c.take(resource.Extension)
	return c
}

// asked applies the policy, for one who does not have the cluster: it comes first, then its endpoints, then what asks there.
func (c *client) asked(policy *config.Object) {
	c.t.Helper()
	c.apply(policy)
	c.reaches()
	c.filters("and then it is asked")
}

// reaches takes who is asked, and where; nothing else may come meanwhile.
func (c *client) reaches() {
	c.t.Helper()
	if a := c.next(resource.Cluster); !slices.Equal(a.names(), []string{authorizerCluster}) {
		c.t.Fatalf("first who is asked: %+v", a)
	}
	if a := c.next(resource.Endpoints); !slices.Equal(a.names(), []string{authorizerCluster}) {
		c.t.Fatalf("then where: %+v", a)
	}
	c.ack(resource.Cluster)
	c.ack(resource.Endpoints)
}

func (c *client) filters(what string) {
	c.t.Helper()
	c.theseFilters(what, envoy.FilterAuthorizer, envoy.FilterCustom)
}

// theseFilters come, and nothing else before they are acknowledged.
func (c *client) theseFilters(what string, names ...string) {
	c.t.Helper()
	if a := c.next(resource.Extension); !slices.Equal(a.names(), names) {
		c.t.Fatalf("%s: %+v", what, a)
	}
	c.quiet()
	c.ack(resource.Extension)
}

// TestAskedBeforeItIsOpened: where somebody is asked about what a policy denied, or the other way round, what closes comes first, and what would open only
// when Envoy has taken that; and nothing of it comes while the cluster of who is asked is awaited.
func TestAskedBeforeItIsOpened(t *testing.T) {
	egress, ingress := node("egress-1", "istio-system", "istio", "egressgateway"), node("ingress-1", "default", "istio", "ingressgateway")
	for _, n := range []*core.Node{egress, ingress} {
		n.Id = "router" + strings.TrimPrefix(n.GetId(), "sidecar")
	}
	opened := &config.Object{Key: config.Key{Kind: config.KindGateway, Namespace: "default", Name: "public"}, Spec: &networking.Gateway{
		Selector: map[string]string{"istio": "ingressgateway"}, Servers: []*networking.Server{{Port: &networking.Port{Number: 80, Name: "http", Protocol: "HTTP"}, Hosts: []string{"*"}}},
	}}
	asks := []string{envoy.FilterAuthorizer, envoy.FilterAuthorizerConnections, envoy.FilterCustom, envoy.FilterCustomConnections}
	judges := []string{envoy.FilterAuthzConnections, envoy.FilterAuthzRequests}
	for name, role := range map[string]struct {
		node         *core.Node
		asks, judges []string
	}{
		"sidecar":        {node("app", "default"), asks, judges},
		"ingress":        {ingress, asks, judges},
		"egress gateway": {egress, []string{envoy.FilterAuthorizer, envoy.FilterCustom}, []string{envoy.FilterAuthz}},
	} {
		t.Run(name, func(t *testing.T) {
			serve.SetRestTime(t, time.Hour)
			l, policy := providing(t, append(gatewayPod("10.0.0.2"), opened)...)
			policy.Namespace = role.node.GetMetadata().GetFields()["NAMESPACE"].GetStringValue()
			denies := &config.Object{Key: policy.Key, Spec: &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{}}}}
			l.apply(denies)
			c := l.filtering(role.node, append(slices.Clone(role.asks), role.judges...)...)

			c.apply(policy)
			c.reaches()
			c.theseFilters("first it is asked", role.asks...)
			c.theseFilters("then no policy denies", role.judges...)
			c.apply(denies)
			c.theseFilters("first a policy denies", role.judges...)
			c.theseFilters("then it is not asked", role.asks...)
		})
	}
}

// TestAuthorizersRest: the cluster of who is asked no more stays, with its endpoints, for those about whom it is asked at that moment, also if it is
// asked again meanwhile.
func TestAuthorizersRest(t *testing.T) {
	serve.SetRestTime(t, time.Hour)
	c, policy := asking(t)
	for range 2 {
		c.remove(policy)
		c.filters("it is asked no more")
		c.quiet()
		c.asked(policy)
		c.quiet()
	}
}

// TestAuthorizersGo: after a rest they go, and come when somebody is to be asked again.
func TestAuthorizersGo(t *testing.T) {
	serve.SetRestTime(t, 50*time.Millisecond)
	c, policy := asking(t)
	for range 2 {
		c.remove(policy)
		c.filters("it is asked no more")
		if a := c.take(resource.Cluster); !slices.Equal(a.removed, []string{authorizerCluster}) {
			t.Fatalf("then who is not asked goes: %+v", a)
		}
		if a := c.take(resource.Endpoints); !slices.Equal(a.removed, []string{authorizerCluster}) {
			t.Fatalf("and where it was: %+v", a)
		}
		c.asked(policy)
	}
}
