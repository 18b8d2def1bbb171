package replicas_test

import (
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/meshtls"
	"github.com/sallyport/sallyport/xds/identity/servertls"
	"github.com/sallyport/sallyport/xds/replicas"
	"github.com/sallyport/sallyport/xds/serve"
)

const service = "sallyport.istio-system.svc"

var (
	controller = identity.ID{TrustDomain: "cluster.local", Namespace: "istio-system", ServiceAccount: "sallyport"}
	checkout   = config.Key{Kind: config.KindEgressPolicy, Namespace: "shop", Name: "checkout"}
)

func authority(t *testing.T) *ca.CA {
	t.Helper()
	c, err := ca.Open(ca.Options{DataDir: t.TempDir(), TrustDomain: "cluster.local", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// replica serves one, and gives its address.
func replica(t *testing.T, from *ca.CA, name, host string, e serve.Enforcement) string {
	t.Helper()
	tls, err := servertls.New(servertls.Options{CA: from, Hosts: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	guard := identity.NewGuard(identity.Certificate{TrustDomain: "cluster.local"}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(tls)), grpc.UnaryInterceptor(guard.Unary))
	s := replicas.Server{Replica: name, Own: controller, Ask: func(keys []config.Key) map[config.Key]serve.Enforcement {
		return map[config.Key]serve.Enforcement{keys[0]: e}
	}, Gateways: func() []string { return []string{"10.0.0.2"} }}
	s.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// TestOthers: what the others say is heard, whoever asks does not hear himself, and who is not there, is nobody of ours or is asked by
// somebody else says nothing.
func TestOthers(t *testing.T) {
	ours := authority(t)
	b := serve.Enforcement{Revision: "r", Selected: 3, Current: 2, Behind: "sidecar~x", Refuses: "sidecar~x", Refusal: "no such thing"}
	self, other := replica(t, ours, "a", service, serve.Enforcement{Revision: "r"}), replica(t, ours, "b", service, b)
	stranger, named := replica(t, authority(t), "c", service, b), replica(t, ours, "d", "else.istio-system.svc", b)
	gone, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(as identity.ID) ([]replicas.Said, map[string]error) {
		o := &replicas.Others{Replica: "a", Within: time.Minute, Credentials: credentials.NewTLS(meshtls.ClientOfName(meshtls.NewOwn(ours, as), service))}
		t.Cleanup(func() { _ = o.Close() })
		return o.Enforcing(t.Context(), []string{self, other, stranger, named, gone}, []config.Key{checkout})
	}
	said, silent := ask(controller)
	if len(said) != 1 || said[0].Replica != "b" || said[0].Enforcements[checkout] != b || !slices.Equal(said[0].Gateways, []string{"10.0.0.2"}) {
		t.Errorf("said: %+v", said)
	}
	for name, address := range map[string]string{"a stranger": stranger, "one of another name": named, "one that is gone": gone} {
		if silent[address] == nil {
			t.Errorf("%s was heard: %v", name, silent)
		}
	}
	if len(silent) != 3 {
		t.Errorf("silent: %v", silent)
	}
	gateway := controller
	gateway.ServiceAccount = "istio-egressgateway"
	if said, silent := ask(gateway); len(said) != 0 || len(silent) != 5 {
		t.Errorf("a gateway asks: %+v, %v", said, silent)
	}
}
