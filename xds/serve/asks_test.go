package serve_test

import (
	"slices"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
)

const authorizerCluster = "authorizer|9191||authz.test"

// asking is a pod in a mesh with a provider, and a policy that has it asked.
func asking(t *testing.T) (*client, *config.Object) {
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
	l := newLabOf(t, cfg, everybody, provider)
	c := l.connect(node("app", "default"))
	c.ask(resource.Cluster)
	c.take(resource.Cluster)
	c.ask(resource.Endpoints, authorizerCluster)
	c.take(resource.Endpoints)
	c.ask(resource.Extension, envoy.FilterCustom, envoy.FilterAuthorizer)
	c.take(resource.Extension)
	c.asked(policy)
	return c, policy
}

// asked applies the policy, for one who does not have the cluster: it comes first, then its endpoints, then what asks there.
func (c *client) asked(policy *config.Object) {
	c.t.Helper()
	c.apply(policy)
	if a := c.next(resource.Cluster); !slices.Equal(a.names(), []string{authorizerCluster}) {
		c.t.Fatalf("first who is asked: %+v", a)
	}
	if a := c.next(resource.Endpoints); !slices.Equal(a.names(), []string{authorizerCluster}) {
		c.t.Fatalf("then where: %+v", a)
	}
	c.ack(resource.Cluster)
	c.ack(resource.Endpoints)
	c.filters("and then it is asked")
}

func (c *client) filters(what string) {
	c.t.Helper()
	if a := c.take(resource.Extension); !slices.Equal(a.names(), []string{envoy.FilterAuthorizer, envoy.FilterCustom}) {
		c.t.Fatalf("%s: %+v", what, a)
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
