package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

const (
	machineHost  = "db.machines.svc.cluster.local"
	machineEntry = "db.corp.test"
	machinePort  = 8080
	// machineLeaves is how long it may take until a machine that went is nobody's endpoint any more: its grace, and some patience.
	machineLeaves = 2 * time.Minute
)

var (
	machineAddr     = netip.MustParseAddr("10.77.0.90")
	machineClient   = netip.MustParseAddr("10.77.0.91")
	machineService  = netip.MustParseAddr("10.96.0.90")
	machineEntryVIP = netip.MustParseAddr("10.97.0.90")
)

const machineObjects = `apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: db, namespace: machines}
spec:
  metadata: {labels: {app: db}}
  template: {serviceAccount: db}
  probe: {periodSeconds: 1, failureThreshold: 2, httpGet: {path: /healthy, port: 8081}}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: machines}
spec: {clusterIP: 10.96.0.90, selector: {app: db}, ports: [{name: http, port: 8080, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: db, namespace: machines}
spec:
  hosts: [db.corp.test]
  addresses: [10.97.0.90]
  location: MESH_INTERNAL
  resolution: STATIC
  workloadSelector: {labels: {app: db}}
  ports: [{number: 8080, name: http, protocol: HTTP}]
`

// machines is a scene with a machine, and a pod of its namespace beside the app, which is of another one.
type machines struct {
	scene           *story.Scene
	machine, client *story.Pod
	ill             atomic.Bool // what the machine's application says of itself
}

// TestMachineJoins: a machine with a token and its group's name is an endpoint of whatever selects it, with mutual TLS, while its agent is there.
func TestMachineJoins(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, scene := setScene(t, story.InNamespaces)
	if err := scene.Config.Write("machines.yaml", machineObjects); err != nil {
		t.Fatal(err)
	}
	setting, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	m := &machines{scene: scene}
	var err error
	if m.client, err = scene.AddSidecar(setting, "client-1", "machines", "client", machineClient); err != nil {
		t.Fatal(err)
	}
	if m.machine, err = scene.AddMachine(setting, "vm-1", "machines", "db", "db", machineAddr); err != nil {
		t.Fatal(err)
	}
	if text, err := scene.App.Admin(ctx, "/clusters"); err != nil || strings.Contains(string(text), machineAddr.String()) {
		t.Errorf("a machine is an endpoint before its probe has succeeded (%v)", err)
	}
	m.serve(t)
	inOrder(t, []part{
		{"joins", m.joins},
		{"nobody else joins", m.nobodyElse},
		{"it is not well", m.notWell},
		{"the controller is killed", m.controllerKilled},
		{"the machine goes", m.goes},
	})
}

// serve runs the machine's application: its page, and what it says of its health, which nobody but the machine itself may ask.
func (m *machines) serve(t *testing.T) {
	t.Helper()
	for port, page := range map[uint16]http.HandlerFunc{machinePort: meshedPage, machinePort + 1: func(w http.ResponseWriter, _ *http.Request) {
		if m.ill.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}} {
		l, err := m.machine.Host().Listen(netip.AddrPortFrom(machineAddr, port).String())
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: page, ReadHeaderTimeout: attackTimeout}
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close(); <-done })
	}
}

// ask asks the machine once: the app by the Service, and the pod of its namespace by the entry.
func (m *machines) ask(ctx context.Context) error {
	for _, c := range []struct {
		from    *world.Host
		to      netip.Addr
		host    string
		account string
	}{
		{m.scene.World.App, machineService, machineHost, "default/sa/app"},
		{m.client.Host(), machineEntryVIP, machineEntry, "machines/sa/client"},
	} {
		url := fmt.Sprintf("http://%s:%d/machine", c.host, machinePort)
		body, err := getFrom(ctx, c.from, netip.AddrPortFrom(c.to, machinePort), url)
		if want := "URI=spiffe://cluster.local/ns/" + c.account + "]"; err != nil || !strings.Contains(body, want) {
			return fmt.Errorf("%s of %s: %q (%w), want %s", c.host, c.account, body, err, want)
		}
	}
	return nil
}

func (m *machines) until(t *testing.T, limit time.Duration, what func(context.Context) error) {
	t.Helper()
	if err := world.Within(t.Context(), limit, func() error { return what(t.Context()) }); err != nil {
		t.Fatal(err)
	}
}

// gone says whether the app's proxy has no endpoint of the machine any more.
func (m *machines) gone(ctx context.Context) error {
	text, err := m.scene.App.Admin(ctx, "/clusters")
	if err == nil && strings.Contains(string(text), machineAddr.String()) {
		err = fmt.Errorf("the app's proxy has the endpoint %s", machineAddr)
	}
	return err
}

func (m *machines) joins(t *testing.T) { m.until(t, machineLeaves, m.ask) }

// nobodyElse: who has another account's token is told so, and is no endpoint.
func (m *machines) nobodyElse(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	other := netip.MustParseAddr("10.77.0.92")
	if _, err := m.scene.AddMachine(ctx, "vm-2", "machines", "client", "db", other); err == nil {
		t.Error("a machine of another account is ready")
	}
	text, err := m.client.Admin(t.Context(), "/clusters")
	if err != nil || strings.Contains(string(text), net.JoinHostPort(other.String(), "8080")) {
		t.Errorf("it is an endpoint (%v)", err)
	}
}

// notWell: a machine whose probe fails is nobody's endpoint until it succeeds again, and another probe counts when it is written.
func (m *machines) notWell(t *testing.T) {
	m.ill.Store(true)
	m.until(t, machineLeaves, m.gone)
	m.ill.Store(false)
	m.until(t, machineLeaves, m.ask)
	if err := m.scene.Config.Write("machines.yaml", strings.Replace(machineObjects, "port: 8081}", "port: 8082}", 1)); err != nil {
		t.Fatal(err)
	}
	m.until(t, machineLeaves, m.gone) // nobody listens there
	if err := m.scene.Config.Write("machines.yaml", machineObjects); err != nil {
		t.Fatal(err)
	}
	m.until(t, machineLeaves, m.ask)
}

// controllerKilled: traffic goes on while there is no controller, and when it is back.
func (m *machines) controllerKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), sceneLimit)
	defer cancel()
	if err := m.scene.Controller.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.ask(ctx); err != nil {
		t.Error(err)
	}
	if err := m.scene.Controller.Start(ctx); err != nil {
		t.Fatal(err)
	}
	back := func() error {
		if err := m.ask(ctx); err != nil {
			t.Error(err)
		}
		out, err := m.scene.Call(ctx, "proxies")
		if err == nil && (!strings.Contains(string(out), "vm-1.machines") || !strings.Contains(string(out), "app-1.default")) {
			err = fmt.Errorf("not all are back: %s", out)
		}
		return err
	}
	if err := world.Within(ctx, machineLeaves, back); err != nil {
		t.Fatal(err)
	}
	if err := m.ask(ctx); err != nil {
		t.Error(err)
	}
}

// goes: a machine whose agent was killed is an endpoint for the grace time, and no longer; it is one again when the agent is back.
func (m *machines) goes(t *testing.T) {
	if err := m.machine.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.until(t, machineLeaves, m.gone)
	if err := m.machine.Restart(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	m.until(t, machineLeaves, m.ask)
}
