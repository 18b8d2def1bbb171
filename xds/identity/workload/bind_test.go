package workload

import (
	"errors"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/xds/identity"
)

// cluster is a look-up of a few pods.
type cluster map[string]struct {
	labels  map[string]string
	account string
	ips     []string
}

func (c cluster) Pod(namespace, name string) (map[string]string, string, []string, bool) {
	p, ok := c[namespace+"/"+name]
	return p.labels, p.account, p.ips, ok
}

var pods = cluster{
	"shop/checkout-0":   {map[string]string{"app": "checkout"}, "checkout", []string{"10.0.0.1", "fd00::1"}},
	"shop/checkout-1":   {map[string]string{"app": "checkout", "canary": "yes"}, "checkout", []string{"10.0.0.2"}},
	"shop/admin-0":      {map[string]string{"app": "admin"}, "admin", []string{"10.0.0.3"}},
	"shop/plain":        {nil, "", []string{"10.0.0.4"}},
	"shop/web.0":        {nil, "checkout", []string{"10.0.0.5"}},
	"shop/starting":     {nil, "checkout", nil},
	"bank/checkout-0":   {map[string]string{"app": "bank"}, "checkout", []string{"10.0.1.1"}},
	"istio-system/gw-0": {map[string]string{"istio": "egressgateway"}, "gw", []string{"10.0.2.1"}},
}

func TestBind(t *testing.T) {
	id := func(account string) identity.ID {
		return identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: account}
	}
	of := func(name string) identity.Pod { return identity.Pod{Name: name, UID: "1"} }
	for _, c := range []struct {
		name   string
		caller identity.ID
		of     identity.Pod // zero: by certificate
		node   Node
		labels map[string]string
		code   codes.Code
		told   string
	}{
		{
			"itself, by token", id("checkout"), of("checkout-0"),
			Node{ID: "sidecar~10.0.0.1~checkout-0.shop~shop.svc.cluster.local", Namespace: "shop", ServiceAccount: "checkout"},
			map[string]string{"app": "checkout"}, codes.OK, "",
		},
		{
			"itself, by certificate and its other address", id("checkout"), identity.Pod{},
			Node{ID: "sidecar~fd00:0::1~checkout-0.shop~shop.svc.cluster.local"},
			map[string]string{"app": "checkout"}, codes.OK, "",
		},
		{
			"another pod of the account, by certificate", id("checkout"), identity.Pod{},
			Node{ID: "sidecar~10.0.0.2~checkout-1.shop~shop.svc.cluster.local"},
			map[string]string{"app": "checkout", "canary": "yes"}, codes.OK, "",
		},
		{"the default account", id("default"), of("plain"), Node{ID: "sidecar~10.0.0.4~plain.shop~shop.svc.cluster.local"}, nil, codes.OK, ""},
		{"a name with dots", id("checkout"), of("web.0"), Node{ID: "router~10.0.0.5~web.0.shop~shop.svc"}, nil, codes.OK, ""},
		{"an address in disguise", id("checkout"), of("checkout-0"), Node{ID: "sidecar~::ffff:10.0.0.1~checkout-0.shop~shop.svc"}, map[string]string{"app": "checkout"}, codes.OK, ""},

		{
			"another pod of the account, by token", id("checkout"), of("checkout-0"),
			Node{ID: "sidecar~10.0.0.2~checkout-1.shop~shop.svc.cluster.local"}, nil, codes.PermissionDenied, `the token is of the pod "checkout-0"`,
		},
		{
			"a pod of another account, by token", id("checkout"), of("checkout-0"),
			Node{ID: "sidecar~10.0.0.3~admin-0.shop~shop.svc.cluster.local"}, nil, codes.PermissionDenied, `the token is of the pod "checkout-0"`,
		},
		{
			"a pod of another account, by certificate", id("checkout"), identity.Pod{},
			Node{ID: "sidecar~10.0.0.3~admin-0.shop~shop.svc.cluster.local"}, nil, codes.PermissionDenied, `service account is "admin"`,
		},
		{
			"another account in the metadata", id("checkout"), of("checkout-0"),
			Node{ID: "sidecar~10.0.0.1~checkout-0.shop~shop.svc", ServiceAccount: "admin"}, nil, codes.PermissionDenied, `metadata is "admin"`,
		},
		{
			"the same names in another namespace", id("checkout"), of("checkout-0"),
			Node{ID: "sidecar~10.0.1.1~checkout-0.bank~bank.svc.cluster.local"}, nil, codes.PermissionDenied, `its namespace is "bank"`,
		},
		{
			"another namespace in the metadata", id("checkout"), of("checkout-0"),
			Node{ID: "sidecar~10.0.0.1~checkout-0.shop~shop.svc.cluster.local", Namespace: "bank"}, nil, codes.PermissionDenied, `metadata is "bank"`,
		},
		{
			"another namespace's domain", id("checkout"), of("checkout-0"),
			Node{ID: "sidecar~10.0.0.1~checkout-0.shop~bank.svc.cluster.local"}, nil, codes.PermissionDenied, `"bank.svc.cluster.local"`,
		},
		{
			"the gateway", id("checkout"), of("checkout-0"),
			Node{ID: "router~10.0.2.1~gw-0.istio-system~istio-system.svc.cluster.local"}, nil, codes.PermissionDenied, `"istio-system"`,
		},
		{
			"another pod's address", id("checkout"), of("checkout-0"),
			Node{ID: "sidecar~10.0.0.3~checkout-0.shop~shop.svc.cluster.local"}, nil, codes.PermissionDenied, "10.0.0.1, fd00::1",
		},
		{"no address", id("checkout"), of("checkout-0"), Node{ID: "sidecar~~checkout-0.shop~shop.svc"}, nil, codes.PermissionDenied, "no IP address"},
		{"no pod", id("checkout"), identity.Pod{}, Node{ID: "sidecar~10.0.0.1~.shop~shop.svc"}, nil, codes.PermissionDenied, "POD.NAMESPACE"},
		{"no namespace", id("checkout"), identity.Pod{}, Node{ID: "sidecar~10.0.0.1~checkout-0.~shop.svc"}, nil, codes.PermissionDenied, "POD.NAMESPACE"},
		{"no id", id("checkout"), identity.Pod{}, Node{}, nil, codes.PermissionDenied, "TYPE~IP"},
		{"a namespace hidden in the name", id("checkout"), identity.Pod{}, Node{ID: "sidecar~10.0.0.1~checkout-0.shop.bank~bank.svc"}, nil, codes.PermissionDenied, `"bank"`},
		{"a pod that is not there", id("checkout"), of("gone"), Node{ID: "sidecar~10.0.0.9~gone.shop~shop.svc"}, nil, codes.Unavailable, "shop/gone"},
		{"a pod without an address yet", id("checkout"), of("starting"), Node{ID: "sidecar~10.0.0.9~starting.shop~shop.svc"}, nil, codes.Unavailable, "address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod, err := Bind(c.caller, c.of, c.node, pods)
			if status.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.told) {
				t.Fatalf("Bind = %+v, %v; want %s with %q", pod, err, c.code, c.told)
			}
			if !maps.Equal(pod.Labels, c.labels) {
				t.Errorf("labels %v, want %v", pod.Labels, c.labels)
			}
		})
	}
}

func TestBindIsOfThePod(t *testing.T) {
	caller := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "checkout"}
	pod, err := Bind(caller, identity.Pod{}, Node{ID: "sidecar~10.0.0.1~checkout-0.shop~shop.svc"}, pods)
	if err != nil || !pod.IPv6() || len(pod.IPs) != 2 || pod.IPs[0] != netip.MustParseAddr("10.0.0.1") || pod.Name != "checkout-0" {
		t.Errorf("Bind = %+v, %v", pod, err)
	}
	pod.Labels["app"] = "changed"
	if pods["shop/checkout-0"].labels["app"] != "checkout" {
		t.Error("the labels are not a copy")
	}
	_, err = Bind(caller, identity.Pod{}, Node{ID: "sidecar~10.0.0.3~admin-0.shop~shop.svc"}, pods)
	var refused *Refused
	if !errors.As(err, &refused) || refused.Caller != caller {
		t.Errorf("error %v", err)
	}
}

// Whatever a node id looks like, the namespace and the account are the caller's own.
func FuzzBind(f *testing.F) {
	f.Add("sidecar~10.0.0.1~checkout-0.shop~shop.svc", "checkout-0")
	f.Add("sidecar~10.0.0.3~admin-0.shop~shop.svc", "")
	caller := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "checkout"}
	f.Fuzz(func(t *testing.T, id, of string) {
		pod, err := Bind(caller, identity.Pod{Name: of}, Node{ID: id}, pods)
		if err == nil && (pod.Namespace != "shop" || pod.ServiceAccount != "checkout" || of != "" && of != pod.Name) {
			t.Errorf("%q with a token of %q became %+v", id, of, pod)
		}
	})
}
