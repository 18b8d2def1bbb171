package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// programmed is the side that the control plane programs.
type programmed struct {
	side
	scene        *story.Scene
	pod, gateway *story.Pod // that others come to, and by which those outside come in
	control      []int      // the controller and its audit store
}

func newProgrammed(ctx context.Context, run *world.Run, found story.Programs, self string) (*programmed, error) {
	scene, err := story.InNamespaces(ctx, run, found)
	if err != nil {
		return nil, err
	}
	p := &programmed{scene: scene, side: side{name: "programmed", world: scene.World, self: self}}
	scene.Outside.Set(host, time.Minute, serverAddr)
	leaf, err := p.serve(run, scene.Outside.CA)
	if err := errors.Join(err, scene.SetPolicy(ctx, "REGISTRY_ONLY")); err != nil {
		return nil, err
	}
	shown, err := p.inside(ctx)
	if err != nil {
		return nil, err
	}
	p.setEnds("", leaf, shown)
	app, gateway, door, pod := scene.World.App, scene.World.Gateway, p.gateway.Host(), p.pod.Host()
	for way, hosts := range map[way][2]*world.Host{egress: {app, gateway}, mesh: {app, pod}, ingress: {door, pod}} {
		if err := p.ends[way].proxies(hosts); err != nil {
			return nil, err
		}
	}
	if err := p.arrives(ctx); err != nil {
		return nil, err
	}
	if p.control, err = pids(scene.World.Control); err != nil {
		return nil, err
	}
	run.OnClose(func() error { return p.rest(false) })
	return p, p.place()
}

// proxies finds the programs on a way.
func (e *end) proxies(hosts [2]*world.Host) error {
	for i, h := range hosts {
		envoy, err := only(h, "envoy")
		if err != nil {
			return err
		}
		agent, err := parent(envoy)
		if err != nil {
			return err
		}
		e.envoys[i], e.agents = envoy, append(e.agents, agent)
	}
	return nil
}

// inside sets the pod that others come to and the ingress gateway, and gives the certificate that this one shows.
func (p *programmed) inside(ctx context.Context) (shown []byte, err error) {
	leaf, err := p.scene.Outside.CA.Issue(ingressHost)
	if err != nil {
		return nil, err
	}
	chain, key, err := inPEM(leaf)
	if err != nil {
		return nil, err
	}
	coded := base64.StdEncoding.EncodeToString
	if err := p.scene.Config.Write("inside.yaml", fmt.Sprintf(inside, podService, podPort, podAddr, ingressPlain, ingressTLS, coded(chain), coded(key), ingressHost, podHost)); err != nil {
		return nil, err
	}
	if p.pod, err = p.scene.AddSidecar(ctx, "measured-1", "default", "measured", podAddr, "app=measured"); err != nil {
		return nil, err
	}
	if p.gateway, err = p.scene.AddRouter(ctx, "ingress-1", "istio-ingress", "ingress", ingressAddr, "istio=ingressgateway"); err != nil {
		return nil, err
	}
	return leaf.Certificate[0], errors.Join(p.serveApp(p.pod.Host(), podAddr), ports(ctx, p.gateway.Host()))
}

// inside is what there is in the mesh, as a cluster shows it.
const inside = `apiVersion: v1
kind: Service
metadata: {name: measured, namespace: default}
spec: {clusterIP: %s, selector: {app: measured}, ports: [{name: http, port: %d}]}
---
apiVersion: v1
kind: Pod
metadata: {name: measured-1, namespace: default, labels: {app: measured, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: measured, containers: []}
status: {podIP: %s, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: ingress, namespace: istio-ingress}
spec:
  clusterIP: 10.96.0.61
  selector: {istio: ingressgateway}
  ports: [{name: http, port: 80, targetPort: %d}, {name: https, port: 443, targetPort: %d}]
---
apiVersion: v1
kind: Secret
metadata: {name: shown, namespace: istio-ingress}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: ingress, namespace: istio-ingress}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: shown}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: measured, namespace: default}
spec:
  hosts: [%s]
  gateways: [istio-ingress/ingress]
  http: [{route: [{destination: {host: %s}}]}]
`

// arrives waits until requests that stay in the mesh, or come in, are answered.
func (p *programmed) arrives(ctx context.Context) error {
	for _, l := range loads {
		if l.Way == egress {
			continue
		}
		err := world.Within(ctx, readyWithin, func() error {
			got, err := p.round(ctx, order{traffic: l, Clients: 1, Duration: time.Minute, Requests: 1})
			if err == nil && got.Failures > 0 {
				err = errors.New(got.First)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	return nil
}

// rest stops the controller and its audit store, or lets them go on.
func (p *programmed) rest(still bool) error {
	signal := syscall.SIGCONT
	if still {
		signal = syscall.SIGSTOP
	}
	var errs []error
	for _, pid := range p.control {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

const entry = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %q, namespace: default}
spec:
  hosts: [%q]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
`

// register makes a mesh of so many hosts, with the measured one among them, and waits until all proxies have it.
func (p *programmed) register(ctx context.Context, hosts int) error {
	var all strings.Builder
	fmt.Fprintf(&all, entry, "measured", host)
	last := host
	for i := 1; i < hosts; i++ {
		last = fmt.Sprintf("host-%d.of-%d.test", i, hosts)
		fmt.Fprintf(&all, entry, fmt.Sprintf("host-%d", i), last)
	}
	if err := p.rest(false); err != nil {
		return err
	}
	if err := p.scene.Config.Write("measured.yaml", all.String()); err != nil {
		return err
	}
	return world.Within(ctx, 3*time.Minute, func() error {
		out, err := p.scene.Call(ctx, "proxies", "-o", "json")
		if err != nil {
			return err
		}
		var proxies []struct {
			ID     string
			Synced bool
		}
		if err := json.Unmarshal(out, &proxies); err != nil {
			return err
		}
		for _, proxy := range proxies {
			if strings.HasSuffix(proxy.ID, "~istio-ingress.svc.cluster.local") {
				continue // of what is outside it has nothing
			}
			given, err := p.scene.Call(ctx, "config", proxy.ID)
			if err != nil {
				return err
			}
			if !proxy.Synced || !bytes.Contains(given, []byte(last)) {
				return fmt.Errorf("%s does not have %s yet", proxy.ID, last)
			}
		}
		return nil
	})
}

// have gives the mesh the objects in a file, before hosts are registered.
func (p *programmed) have(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return errors.Join(p.rest(false), p.scene.Config.Write("beside.yaml", string(text)))
}

// pids are the processes on a host.
func pids(h *world.Host) ([]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	out, err := world.Output(exec.CommandContext(ctx, "ip", "netns", "pids", h.Namespace()))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, field := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(field); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
}

// only finds the one process on a host that runs a program.
func only(h *world.Host, program string) (int, error) {
	all, err := pids(h)
	if err != nil {
		return 0, err
	}
	for _, pid := range all {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == program {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no %s runs on %s", program, h.Name)
}
