package e2e

import "net/netip"

// narrow hides from the app what other teams registered, and closes what nobody did.
const narrow = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: narrow, namespace: default}
spec:
  workloadSelector: {labels: {app: app}}
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
  - port: {number: 8443, protocol: TLS}
    hosts: ["./exact.test"]
  - port: {number: 993, protocol: TLS}
    bind: 127.0.0.1
    hosts: ["./*"]
  - hosts: ["./*", "istio-system/*", "~/owner.test"]
`

// destinations are tried by every scheme. To add a case, register a host in testdata/differential.yaml, if it needs
// one, and list what is tried here. 9999 is a port at which nothing is registered, 5432 one at which only TCP is.
var destinations = []string{
	"exact.test:80", "exact.test:443", "exact.test:5432", "exact.test:8080", "exact.test:9999", "exact.test:7777", "exact.test:15001",
	"bytes.test:80",
	"a.wild.test:80", "a.wild.test:443", "wild.test:443", "a.wild.test:5432",
	"odd.test:8080", "odd.test:8443", "odd.test:80", "mixed.test:8080",
	"mail.test:993", "owner.test:80", "owner.test:443", "owner.test:5432", "owner.test:9999",
	ownedAddr.String() + ":80", ownedAddr.String() + ":443", ownedAddr.String() + ":5432",
	"second.test:80", "second.test:443", "second.test:5432", "split.test:80", "split.test:443",
	"rival.test:80", "rival.test:443",
	"direct.test:80", "direct.test:443", "direct.test:5432", "direct.test:8443",
	"a.straight.test:80", "a.straight.test:443",
	"private.test:80", "private.test:443", "private.test:5432",
	"hidden.test:80", "hidden.test:443", "hidden.test:5432",
	"api.guard.test:80", "api.guard.test:443", "api.guard.test:8080", "www.guard.test:80", "www.guard.test:443",
	"machines.test:80", "machines.test:5432", "machines.test:443",
	"own.wide.test:80", "own.wide.test:443", "own.wide.test:8080", "other.wide.test:443",
	"x.root.test:80", "x.root.test:443", "x.shared.test:80", "x.shared.test:443", "led.test:80", "led.test:443",
	"blind.test:7070", "nobody.test:7070", "exact.test:7070",
	"checkout.store:80", "checkout.store:443", "checkout.store:8080", "checkout.store.svc.cluster.local:80",
	"nobody.test:80", "nobody.test:443", "nobody.test:5432", "nobody.test:9999",
	clusterAddr.String() + ":443", clusterAddr.String() + ":80", clusterAddr.String() + ":5432",
	"api:80", "api.default:80", "api.default.svc:443", "api.default.svc.cluster.local:443", "api.default.svc.cluster.local:5432", "api:5432",
	"front.test:443", "192.0.2.10:443", "192.0.2.10:5432",
	"203.0.113.113:9999", "203.0.113.121:9999", "203.0.113.113:80",
	"pods:80", "pods-0.pods:80", "pods-0.pods.default.svc.cluster.local:80", "203.0.113.122:80", "203.0.113.122:5432", "also:80", "also.default:80", "also:5432",
	rangedAddr.String() + ":8443", rangedAddr.String() + ":9999", rangedAddr.String() + ":80", "range.test:9999",
	loneAddr.String() + ":80", loneAddr.String() + ":443", loneAddr.String() + ":5432", loneAddr.String() + ":8080", loneAddr.String() + ":9999",
	"lone-0.lone.default.svc.cluster.local:80", "lone-0.lone.default.svc.cluster.local:443", "lone-0.lone.default.svc.cluster.local:9999",
	otherAddr.String() + ":80", otherAddr.String() + ":5432", otherAddr.String() + ":9999",
}

// Where everything is that the cases try, but for what owner.test owns.
var (
	otherAddr   = netip.MustParseAddr("203.0.113.99")
	podAddr     = netip.MustParseAddr("203.0.113.122")
	rangedAddr  = netip.MustParseAddr("203.0.113.105")
	clusterAddr = netip.MustParseAddr("203.0.113.110")
	storeAddr   = netip.MustParseAddr("203.0.113.91")  // the address of the Service checkout.store
	loneAddr    = netip.MustParseAddr("203.0.113.125") // in the network of a Node, and registered by nobody
	ownedAddr   = netip.MustParseAddr("203.0.113.98")
)

// owners are the hosts that records name where another name, or an address, was tried.
var owners = map[string]string{
	clusterAddr.String(): "api.default.svc.cluster.local", "192.0.2.10": "front.test", rangedAddr.String(): "range.test", "203.0.113.113": "chosen.test", "203.0.113.121": "chosen.test",
	"203.0.113.122": "pods.default.svc.cluster.local",
}

// settings are the policies under which everything is tried, each in a scene of its own.
var settings = []struct {
	name, policy string
	sidecar      bool
}{
	{"ALLOW_ANY", "ALLOW_ANY", false},
	{"REGISTRY_ONLY", "REGISTRY_ONLY", false},
	{"Sidecar", "ALLOW_ANY", true},
}
