package kube

import (
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

// TestAgainstAnAPIServer shares one server: starting it is what takes time.
func TestAgainstAnAPIServer(t *testing.T) {
	access := apiserver.Start(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"every kind", everyKind},
		{"refused", refused},
		{"relist", relist},
		{"outage", outage},
		{"a server that comes later", comesLater},
		{"same hash as a file", sameHash},
		{"deleted and made again", madeAgain},
		{"forbidden", forbidden},
		{"secrets that rules name", namedSecrets},
		{"a CRD comes and goes", comesAndGoes},
		{"older versions", olderVersions},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newCluster(t, access)) })
	}
}

const oneOfEach = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: every, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", note: x}}
spec: {hosts: [a.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1beta1
kind: Gateway
metadata: {name: a, namespace: every}
spec: {selector: {app: gw}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["a.com"]}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: VirtualService
metadata: {name: a, namespace: every}
spec: {hosts: [a.com], http: [{timeout: 1.5s, route: [{destination: {host: a.com}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a, namespace: every}
spec: {host: a.com, trafficPolicy: {tls: {mode: SIMPLE}}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: a, namespace: every}
spec: {egress: [{hosts: ["./*"]}]}
---
apiVersion: v1
kind: Service
metadata: {name: a, namespace: every}
spec: {selector: {app: a}, ports: [{port: 80, name: http, targetPort: web}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: a, namespace: every, labels: {kubernetes.io/service-name: a, other: x}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1], nodeName: n1, zone: z1, targetRef: {kind: Pod, name: a, namespace: every}}]
ports: [{name: http, port: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: every, labels: {app: a}}
spec: {serviceAccountName: acc, containers: [{name: c, image: i, env: [{name: A, value: b}], ports: [{name: web, containerPort: 8080}, {containerPort: 9}]}]}`

func everyKind(t *testing.T, c *cluster) {
	c.apply(namespace("every"))
	c.apply(oneOfEach)
	r := startSource(t, c.access, Options{})
	first := r.next()
	<-r.Synced()
	for _, f := range faults(first.findings) {
		t.Errorf("finding %v", f)
	}
	at := func(k config.Kind) *config.Object {
		o := r.state[config.Key{Kind: k, Namespace: "every", Name: "a"}]
		if o == nil {
			t.Fatalf("no %s in the first batch", k)
		}
		if o.Origin != "cluster" || o.Hash == 0 || o.Created.IsZero() || o.Hash != decode.Hash(o) {
			t.Errorf("%s: %+v", k, o)
		}
		return o
	}
	se := at(config.KindServiceEntry)
	if len(se.Annotations) != 1 || se.Spec.(*networking.ServiceEntry).Ports[0].Number != 443 {
		t.Errorf("service entry %+v", se)
	}
	if vs := at(config.KindVirtualService).Spec.(*networking.VirtualService); vs.Http[0].Timeout.AsDuration() != 1500*time.Millisecond {
		t.Errorf("virtual service %v", vs)
	}
	at(config.KindGateway)
	at(config.KindDestinationRule)
	at(config.KindSidecar)
	if s := at(config.KindService).Spec.(*corev1.Service); s.Spec.ClusterIP == "" || s.Spec.Ports[0].TargetPort.StrVal != "web" || s.UID != "" {
		t.Errorf("service %v", s)
	}
	if s := at(config.KindEndpointSlice).Spec.(*discoveryv1.EndpointSlice); len(s.Labels) != 1 || s.Endpoints[0].TargetRef != nil || s.Endpoints[0].Addresses[0] != "10.0.0.1" || *s.Ports[0].Port != 8080 {
		t.Errorf("slice %v", s)
	}
	if p := at(config.KindPod).Spec.(*corev1.Pod); p.Spec.ServiceAccountName != "acc" || len(p.Spec.Containers) != 1 || len(p.Spec.Containers[0].Ports) != 1 || p.Spec.Containers[0].Image != "" {
		t.Errorf("pod %v", p)
	}
	if ns := r.state[config.Key{Kind: config.KindNamespace, Name: "every"}]; ns == nil || ns.Labels["kubernetes.io/metadata.name"] != "every" {
		t.Errorf("namespace %v", ns)
	}

	c.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: every, annotations: {egress.sallyport.io/gateway: direct}}")
	if b := r.next(); len(b.changes) != 1 || b.changes[0].Object.Annotations["egress.sallyport.io/gateway"] != "direct" {
		t.Errorf("changes %v", b.changes)
	}
	c.delete("Sidecar", "networking.istio.io/v1", "every", "a")
	if b := r.next(); len(b.changes) != 1 || b.changes[0].Object != nil || b.changes[0].Key.Kind != config.KindSidecar {
		t.Errorf("changes %v", b.changes)
	}
}

func refused(t *testing.T, c *cluster) {
	c.apply(namespace("bad"))
	c.apply(entry("bad", "a", "a.com"))
	c.apply(badEntry("bad", "new", "b.com"))
	r := startSource(t, c.access, Options{})
	r.until("bad", "a=a.com")
	r.untilFinding("ServiceEntry bad/new: spec.exportTo[1]")
	c.apply(badEntry("bad", "a", "b.com"))
	r.untilFinding("until then its last good version is used")
	key := config.Key{Kind: config.KindServiceEntry, Namespace: "bad", Name: "a"}
	if j := r.judgement(key); !j.Refused || !j.LastGood || j.Generation != 2 || len(j.Findings) == 0 {
		t.Errorf("judgement %+v", j)
	}
	if j := r.judgement(config.Key{Kind: key.Kind, Namespace: "bad", Name: "new"}); !j.Refused || j.LastGood {
		t.Errorf("judgement %+v", j)
	}
	r.until("bad", "a=a.com")
	c.apply(entry("bad", "a", "b.com"))
	r.until("bad", "a=b.com")
	if j := r.judgement(key); j.Refused || j.Generation != 3 {
		t.Errorf("judgement %+v", j)
	}
	c.apply(badEntry("bad", "a", "b.com"))
	c.apply(entry("bad", "a", "b.com")) // back to what is in use: no change, but a judgement
	eventually(t, "the judgement is about the newest version", func() bool { return r.judgement(key).Generation == 5 })
	c.delete("ServiceEntry", "networking.istio.io/v1", "bad", "a")
	r.until("bad")
	c.delete("ServiceEntry", "networking.istio.io/v1", "bad", "new")
	eventually(t, "no findings are left", func() bool { return len(r.faults()) == 0 })
}

// relist makes the reflectors list everything anew.
func relist(t *testing.T, c *cluster) {
	c.apply(namespace("relist"))
	c.apply(entry("relist", "a", "a.com"))
	r := startSource(t, c.access, Options{})
	r.next()
	k := r.kinds[0]
	cl := mustClients(t, r.Source)
	from, err := cl.listerWatcher(k, "v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := contextOf(t)
	done := make(chan struct{})
	lists, watches := 0, 0
	go func() {
		defer close(done)
		cl.reflect(ctx, k, observed(k, from, func(kind, error) { lists++ }, func(kind, error) { watches++ }), r.store) // another version, the same objects
	}()
	c.apply(entry("relist", "b", "b.com")) // both tell of it
	r.until("relist", "a=a.com", "b=b.com")
	before := r.seen
	c.apply(entry("relist", "mark", "m.com"))
	r.until("relist", "a=a.com", "b=b.com", "mark=m.com")
	if r.seen != before+1 {
		t.Errorf("%d changes for one", r.seen-before)
	}
	cancel()
	<-done
	if lists+watches == 0 {
		t.Error("the second reflector did not ask for anything")
	}
}

func outage(t *testing.T, c *cluster) {
	c.apply(namespace("outage"))
	c.apply(entry("outage", "a", "a.com") + "\n---\n" + entry("outage", "b", "b.com"))
	access, way := through(t, c.access)
	r := startSource(t, access, Options{})
	r.until("outage", "a=a.com", "b=b.com")
	before := len(r.state)
	way.close(true)
	c.apply(entry("outage", "a", "a2.com"))
	c.apply(entry("outage", "c", "c.com"))
	c.delete("ServiceEntry", "networking.istio.io/v1", "outage", "b")
	r.untilFinding("the API server does not answer")
	if len(r.state) != before {
		t.Errorf("%d objects, before there were %d", len(r.state), before)
	}
	way.close(false)
	seen := r.seen
	r.until("outage", "a=a2.com", "c=c.com")
	if r.seen != seen+3 {
		t.Errorf("%d changes for three", r.seen-seen)
	}
	eventually(t, "no findings are left", func() bool { return len(r.faults()) == 0 })
}

func sameHash(t *testing.T, c *cluster) {
	c.apply(namespace("hash"))
	c.apply(entry("hash", "a", "a.com"))
	r := startSource(t, c.access, Options{})
	r.until("hash", "a=a.com")
	text, err := yaml.Marshal(c.get("ServiceEntry", "networking.istio.io/v1", "hash", "a"))
	if err != nil {
		t.Fatal(err)
	}
	file := decode.File("exported.yaml", text)
	if len(file.Objects) != 1 {
		t.Fatalf("%v", file.Findings)
	}
	if got := r.state[file.Objects[0].Key]; got.Hash != file.Objects[0].Hash {
		t.Errorf("from the server\n%+v\nfrom the file\n%+v", got, file.Objects[0])
	}
}

func madeAgain(t *testing.T, c *cluster) {
	c.apply(namespace("again"))
	c.apply(entry("again", "a", "a.com"))
	r := startSource(t, c.access, Options{Debounce: time.Second, MaxHoldOff: 3 * time.Second})
	r.until("again", "a=a.com")
	c.delete("ServiceEntry", "networking.istio.io/v1", "again", "a")
	c.apply(badEntry("again", "a", "b.com"))
	r.until("again") // the last good version was deleted
	c.delete("ServiceEntry", "networking.istio.io/v1", "again", "a")
}

func comesLater(t *testing.T, c *cluster) {
	c.apply(namespace("later"))
	c.apply(entry("later", "a", "a.com"))
	access, way := through(t, c.access)
	way.close(true)
	r := startSource(t, access, Options{Patience: time.Nanosecond})
	eventually(t, "the silence is a finding", func() bool {
		f := r.Findings()
		return len(f) == 1 && strings.Contains(f[0].Message, "the API server does not answer")
	})
	select {
	case b := <-r.batches:
		t.Fatalf("a batch came from nowhere: %v", b)
	default:
	}
	way.close(false)
	r.until("later", "a=a.com")
	eventually(t, "no findings are left", func() bool { return len(r.faults()) == 0 })
}
