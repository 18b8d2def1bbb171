package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/e2e/cluster/pki"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

const sharedHost = "shared.shop.svc.cluster.local"

var (
	sharedService = netip.MustParseAddrPort("10.96.0.72:8080")
	westControl   = netip.MustParseAddr("10.77.0.31")
	westGateway   = netip.MustParseAddr("10.77.0.74")
	westExit      = netip.MustParseAddr("10.77.0.75")
	westFarExit   = netip.MustParseAddr("10.77.0.150")
	westPods      = "10.77.0.128/25" // nothing of east's network reaches them
	sharedPort    = corev1.ServicePort{Name: "http", Port: 8080, TargetPort: intstr.FromInt32(8080)}
	exitPort      = corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)}
	meshedLabels  = map[string]string{"app": "shared", "security.istio.io/tlsMode": "istio"}
)

// clusters is a mesh of two, each of a network of its own.
type clusters struct {
	whole      *testing.T
	ctx        context.Context
	scene      *story.Scene
	east, west *member
	client     *story.Pod // in east
	between    *story.Pod // the gateway of west's network
	pods       map[string]*story.Pod
}

// TestTwoClusters holds what a mesh of two clusters is for, with two real API servers and a control plane at each: endpoints of both are used, by the
// east-west gateway of the one whose pods are not reached straight, egress gateways' too; when one cluster's leave, the other's take over without a request lost; an API
// server that dies, or does not accept what the Secret says any more, moves nothing; and when the Secret goes, so do its cluster's endpoints.
func TestTwoClusters(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, scene := setScene(t, story.WithoutMesh)
	m := &clusters{whole: t, ctx: ctx, scene: scene, pods: map[string]*story.Pod{}}
	root, err := pki.New("root")
	if err != nil {
		t.Fatal(err)
	}
	second, err := scene.World.AddPod("control-west", westControl)
	if err != nil {
		t.Fatal(err)
	}
	m.east = newMember(ctx, t, scene, root, "east", scene.World.Control, world.ControlAddr)
	m.west = newMember(ctx, t, scene, root, "west", second, westControl)
	for _, c := range []*member{m.east, m.west} {
		c.begin()
		c.service("shop", "shared", nil, "10.96.0.72", nil, sharedPort)
		c.service(systemNamespace, "istio-egressgateway", nil, "10.96.0.75", nil, exitPort)
	}
	m.west.opened(m.east.host, 6444)
	m.east.opened(m.west.host, 6444)
	m.west.service(systemNamespace, "istio-eastwestgateway", map[string]string{"topology.istio.io/network": m.west.network}, "10.96.0.74", []string{westGateway.String()},
		corev1.ServicePort{Name: "tls", Port: 15443})
	m.west.istio("gateways", systemNamespace, `{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: cross-network}, spec: {selector: {istio: eastwestgateway}, servers: [
		{port: {number: 15443, name: tls, protocol: TLS}, tls: {mode: AUTO_PASSTHROUGH}, hosts: ["*.local"]}]}}`)
	m.client = m.east.pod("sidecar", "shop", "client", "client", netip.MustParseAddr("10.77.0.71"), map[string]string{"app": "client"}, m.apart)
	m.between = m.west.pod("router", systemNamespace, "eastwest", "eastwest", westGateway, map[string]string{"istio": "eastwestgateway"})
	m.comes(m.east, 1)
	m.comes(m.west, 1)
	inOrder(t, []part{
		{"endpoints of both are used", m.both},
		{"endpoints of one leave, and of the other", m.leave},
		{"an egress gateway of the other cluster", m.exit},
		{"an egress gateway of the other cluster's network", m.exitAcross},
		{"an API server dies and comes back", m.dies},
		{"its credentials are taken back", m.refused},
		{"its Secret is removed", m.removed},
	})
}

// apart keeps a pod of east from reaching those of west straight.
func (m *clusters) apart(h *world.Host) {
	if out, err := h.Run(m.ctx, 0, "ip", "route", "add", "unreachable", westPods); err != nil {
		m.whole.Fatalf("%v: %s", err, out)
	}
}

// podOf is a cluster's pod of the Service, and where it is.
func podOf(c *member, n int) (name string, at netip.Addr) {
	return fmt.Sprintf("shared-%s-%d", c.name, n), netip.AddrFrom4([4]byte{10, 77, 0, byte(map[string]int{"east": 80, "west": 140}[c.name] + n)})
}

// comes starts a pod of the Service, and makes it the cluster's only endpoint.
func (m *clusters) comes(c *member, n int) {
	c.Helper()
	name, at := podOf(c, n)
	m.pods[name] = c.pod("sidecar", "shop", name, "shared", at, meshedLabels)
	servePages(m.whole, m.pods[name].Host(), netip.AddrPortFrom(at, 8080), func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", c.name, r.Header.Get("X-Forwarded-Client-Cert"))
	})
	c.endpoints("shop", "shared", sharedPort, endpoint("shop", name, at, false))
}

// goes ends a pod of the Service as Kubernetes does: it is marked and its endpoint with it, and its proxy is asked to end at the same time.
func (m *clusters) goes(c *member, n int) {
	c.Helper()
	name, at := podOf(c, n)
	c.made(nil, c.client().CoreV1().Pods("shop").Delete(c.ctx, name, metav1.DeleteOptions{}))
	c.endpoints("shop", "shared", sharedPort, endpoint("shop", name, at, true))
	if err := m.pods[name].Signal(syscall.SIGTERM); err != nil {
		c.Fatal(err)
	}
	c.becomes("the proxy of "+name+" ends", func() error {
		if m.pods[name].Ended() {
			return nil
		}
		return fmt.Errorf("it runs")
	})
	c.endpoints("shop", "shared", sharedPort)
	now := int64(0)
	c.made(nil, c.client().CoreV1().Pods("shop").Delete(c.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// in has what fails fail the part.
func (m *clusters) in(t *testing.T) { m.east.T, m.west.T = t, t }

// get asks for the Service's page once.
func (m *clusters) get(ctx context.Context, client *http.Client) (by, peer string, err error) {
	status, body, err := pageOf(ctx, client, sharedService, sharedHost)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d: %s", status, body)
	}
	by, peer, _ = strings.Cut(body, " ")
	return by, peer, err
}

// seen waits until both clusters' endpoints have answered, and gives what they were told of their client.
func (m *clusters) seen(t *testing.T) map[string]string {
	t.Helper()
	client, peers := m.client.Host().HTTPClient(), map[string]string{}
	if err := world.Within(m.ctx, clustersPatience, func() error {
		by, peer, err := m.get(m.ctx, client)
		if err != nil {
			return err
		}
		if peers[by] = peer; len(peers) < 2 {
			return fmt.Errorf("only %v answered", peers)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return peers
}

// only waits until a cluster's endpoints alone answer.
func (m *clusters) only(t *testing.T, name string) {
	t.Helper()
	client, inARow := m.client.Host().HTTPClient(), 0
	if err := world.Within(m.ctx, clustersPatience, func() error {
		by, _, err := m.get(m.ctx, client)
		if inARow++; err != nil || by != name {
			inARow = 0
		}
		if err == nil && inARow < 20 {
			err = fmt.Errorf("%d answers in a row by %s, the last by %s", inARow, name, by)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// asking has clients ask all the time while f goes on, over new connections and over ones that they keep, and fails for each request that fails.
func (m *clusters) asking(t *testing.T, f func()) {
	t.Helper()
	ctx, stop := context.WithCancel(m.ctx)
	var asking sync.WaitGroup
	defer func() { stop(); asking.Wait() }()
	var mu sync.Mutex
	answers, failed := map[string]int{}, 0
	for i := range 4 {
		client := m.client.Host().HTTPClient()
		client.Transport.(*http.Transport).DisableKeepAlives = i%2 == 0
		asking.Go(func() {
			defer client.CloseIdleConnections()
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				by, _, err := m.get(m.ctx, client) // a request under way is not cut off by the end
				mu.Lock()
				if answers[by]++; err != nil {
					if failed++; failed <= 5 {
						t.Errorf("a request failed: %v", err)
					}
				}
				mu.Unlock()
				<-pace.C
			}
		})
	}
	f()
	stop()
	asking.Wait()
	t.Logf("%d failed; answers: %v", failed, answers)
}

// both: each end is told of the other by its identity, and nobody goes to the other network's pods straight.
func (m *clusters) both(t *testing.T) {
	m.in(t)
	m.east.told(m.west)
	m.west.told(m.east)
	m.east.reads(m.west, true)
	m.west.reads(m.east, true)
	for name, peer := range m.seen(t) {
		if !strings.Contains(peer, "URI=spiffe://cluster.local/ns/shop/sa/client") {
			t.Errorf("the endpoint in %s was told of %q", name, peer)
		}
	}
	text, err := m.client.Admin(m.ctx, "/clusters")
	if err != nil || strings.Contains(string(text), "10.77.0.141") || !strings.Contains(string(text), westGateway.String()+":15443") {
		t.Errorf("the client's Envoy does not go by the gateway: %v", err)
	}
}

// leave: of each cluster in turn the endpoints leave, and new ones come.
func (m *clusters) leave(t *testing.T) {
	m.in(t)
	for _, turn := range []struct{ leaves, stays *member }{{m.west, m.east}, {m.east, m.west}} {
		m.asking(t, func() {
			m.goes(turn.leaves, 1)
			m.only(t, turn.stays.name)
			m.comes(turn.leaves, 2)
			m.seen(t)
		})
	}
}

// exitsAs starts a pod of the other cluster's egress gateway, with labels beside its own.
func (m *clusters) exitsAs(name string, at netip.Addr, labels map[string]string) {
	all := map[string]string{"istio": "egressgateway", "app": "istio-egressgateway"}
	maps.Copy(all, labels)
	m.west.pod("router", systemNamespace, name, "istio-egressgateway-service-account", at, all, func(h *world.Host) {
		m.west.made(nil, h.Etc("ssl/certs/ca-certificates.crt", m.scene.Outside.CA.PEM()))
	})
}

// leavesBy waits until requests to the outside leave by a pod alone; those before it fail the test where they are lost, if they may not.
func (m *clusters) leavesBy(t *testing.T, at netip.Addr, lost bool) {
	t.Helper()
	kept, inARow := m.client.Host().HTTPClient(), 0
	defer kept.CloseIdleConnections()
	m.east.becomes("external.com answers by "+at.String(), func() error {
		for range 20 {
			fresh := m.client.Host().HTTPClient()
			for _, client := range []*http.Client{kept, fresh} {
				status, body, err := pageOf(m.ctx, client, netip.AddrPortFrom(world.OutsideAddrs[0], 80), "external.com")
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("%d: %s", status, body)
				}
				if err != nil && !lost {
					t.Errorf("a request failed: %v", err)
				}
				if inARow++; err != nil || !strings.Contains(body, at.String()) {
					inARow = 0
				}
			}
			fresh.CloseIdleConnections()
		}
		if inARow < 40 {
			return fmt.Errorf("%d answers in a row", inARow)
		}
		return nil
	})
}

// exit: an egress gateway of the other cluster, in this one's network, is this one's Service's endpoint.
func (m *clusters) exit(t *testing.T) {
	m.in(t)
	m.exitsAs("exit-west", westExit, map[string]string{"topology.istio.io/network": m.east.network})
	entry := `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: external}, spec: {hosts: [external.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}}`
	m.east.istio("serviceentries", "shop", entry)
	m.west.istio("serviceentries", "shop", entry)
	m.west.endpoints(systemNamespace, "istio-egressgateway", exitPort, endpoint(systemNamespace, "exit-west", westExit, false))
	m.leavesBy(t, westExit, true)
}

// exitAcross: one in the other cluster's own network takes over, by the gateway of that network, and gives back; and where none is, nothing leaves. The far one is there before the near
// one goes, and the gateway between has been told: of two control planes either may be the first, and nobody holds what the other one's proxies do not have yet.
func (m *clusters) exitAcross(t *testing.T) {
	m.in(t)
	m.exitsAs("exit-far", westFarExit, nil)
	near, far := endpoint(systemNamespace, "exit-west", westExit, false), endpoint(systemNamespace, "exit-far", westFarExit, false)
	for range 2 {
		m.west.endpoints(systemNamespace, "istio-egressgateway", exitPort, near, far)
		m.west.becomes("the gateway between has the far one", func() error {
			text, err := m.between.Admin(m.ctx, "/clusters")
			if err == nil && !strings.Contains(string(text), netip.AddrPortFrom(westFarExit, uint16(exitPort.TargetPort.IntVal)).String()) {
				err = fmt.Errorf("%s is not among %d bytes", westFarExit, len(text))
			}
			return err
		})
		m.leavesBy(t, westExit, false)
		m.west.endpoints(systemNamespace, "istio-egressgateway", exitPort, far)
		m.leavesBy(t, westFarExit, false)
	}
	m.west.endpoints(systemNamespace, "istio-egressgateway", exitPort)
	m.east.becomes("nothing leaves", func() error {
		status, body, err := pageOf(m.ctx, m.client.Host().HTTPClient(), netip.AddrPortFrom(world.OutsideAddrs[0], 80), "external.com")
		if err == nil && status == http.StatusOK {
			err = fmt.Errorf("a request left: %s", body)
		} else {
			err = nil
		}
		return err
	})
}

// moved is how often the client's Envoy was told of something.
func (m *clusters) moved() (string, error) {
	text, err := m.client.Admin(m.ctx, "/stats?filter=(lds|cds|rds|vhds).update_success|cluster.*shared.*update_success")
	return string(text), err
}

// settled waits until the client's Envoy is told of nothing for a while, and gives how often it was before: what was edited may still be on its way.
func (m *clusters) settled(t *testing.T) string {
	t.Helper()
	last, since := "", time.Now()
	m.east.becomes("its client is told of nothing more", func() error {
		text, err := m.moved()
		if err != nil || text != last {
			last, since = text, time.Now()
		}
		if err == nil && time.Since(since) < 3*time.Second {
			err = fmt.Errorf("it was told of something %s ago", time.Since(since))
		}
		return err
	})
	return last
}

// dies: while the other cluster's API server is dead, and when it is there again, nothing moves.
func (m *clusters) dies(t *testing.T) {
	m.in(t)
	m.asking(t, func() {
		before := m.settled(t)
		m.west.made(nil, m.west.api.Kill())
		m.east.reads(m.west, false)
		m.east.said("cluster=west", "the API server does not answer")
		m.seen(t)
		m.west.made(nil, m.west.api.Again(m.ctx))
		m.west.listening()
		m.east.reads(m.west, true)
		if after, err := m.moved(); err != nil || after != before {
			t.Errorf("the client was told of something (%v):\n%s\nbefore:\n%s", err, after, before)
		}
		name, at := podOf(m.west, 2)
		m.west.endpoints("shop", "shared", sharedPort)
		m.only(t, "east")
		m.west.endpoints("shop", "shared", sharedPort, endpoint("shop", name, at, false))
		m.seen(t)
	})
}

// refused: the account that the Secret speaks as is deleted, and later there is another.
func (m *clusters) refused(t *testing.T) {
	m.in(t)
	m.asking(t, func() {
		m.west.made(nil, m.west.client().CoreV1().ServiceAccounts(systemNamespace).Delete(m.ctx, "sallyport-remote-reader", metav1.DeleteOptions{}))
		m.west.made(nil, m.west.api.Kill())
		m.west.made(nil, m.west.api.Again(m.ctx))
		m.west.listening()
		m.east.said("cluster=west", "does not accept the credentials", "sallyport remote-secret")
		m.east.reads(m.west, false)
		m.seen(t)
		m.east.told(m.west)
		m.east.reads(m.west, true)
		m.seen(t)
	})
}

// removed: with the Secret its cluster's endpoints go, and nothing else.
func (m *clusters) removed(t *testing.T) {
	m.in(t)
	m.asking(t, func() {
		m.east.made(nil, m.east.client().CoreV1().Secrets(systemNamespace).Delete(m.ctx, "istio-remote-secret-west", metav1.DeleteOptions{}))
		m.only(t, "east")
	})
	m.east.said("cluster=west", "is forgotten")
	m.east.becomes("the client's Envoy knows the other cluster's gateway no more", func() error { // answers end with what the client is told first
		text, err := m.client.Admin(m.ctx, "/clusters")
		if err == nil && strings.Contains(string(text), westGateway.String()) {
			err = fmt.Errorf("%s is among %d bytes", westGateway, len(text))
		}
		return err
	})
}
