package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// With -ambient the two sides are a node's one Envoy, for pods without sidecars, and sidecars, in one world: the same controller, gateway and servers.

// ambientPlan is what is measured beside what plan says.
type ambientPlan struct {
	on       bool
	pods     int           // of the node, in the end
	sidecars int           // whose memory is looked at
	pause    time.Duration // how long all is quiet before it is
}

// Where memory is compared, and where the pods are counted of whose adding the time is taken.
const (
	fewPods   = 50
	timedFrom = 200
	timedPods = 20
)

// ambientFigures is what was measured.
type ambientFigures struct {
	hosts, pods, sidecars int
	pause                 time.Duration   // before memory is looked at
	timedFrom             int             // pods that were there when the first one was added whose time was taken
	few                   int             // pods at which memory is compared
	node                  [2]memory       // at few pods, and with all
	sidecar               []memory        // of each
	added                 []time.Duration // how long a pod took to be added, as the CNI plugin waits for it
	served                int             // pods that had an answer, in the end
	traffic               []pair          // ours is the node's
	pressure              []atRest        // in order
	busiest               atRest          // of them
	first                 string          // the first failure of traffic
}

// node is the one that is measured, with its pods.
type node struct {
	side
	*programmed
	at   *story.Node
	pods []*ambientPod
}

type ambientPod struct {
	name string
	addr netip.Addr
	host *world.Host
}

const (
	ambientNamespace = "without"
	ambientService   = "10.96.0.62"
	ambientHost      = "answering." + ambientNamespace + ".svc.cluster.local"
)

var nodeAt = netip.MustParseAddr("10.77.0.62")

// measureAmbient measures, prints, and keeps what was seen in a document, if there is one.
func measureAmbient(ctx context.Context, p plan, a ambientPlan, doc string) (err error) {
	self, programs, err := backstage()
	if err != nil {
		return err
	}
	run, err := world.NewRun()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	ours, err := newProgrammed(ctx, run, programs, self)
	if err != nil {
		return err
	}
	f, err := ours.ambient(ctx, p, a)
	if err != nil {
		return err
	}
	fmt.Print(f.table())
	if doc == "" {
		return nil
	}
	return f.keep(doc, p)
}

// ambient measures memory first, then adding, then traffic at the full node.
func (p *programmed) ambient(ctx context.Context, o plan, a ambientPlan) (*ambientFigures, error) {
	f := &ambientFigures{hosts: o.hosts[len(o.hosts)-1], pods: max(a.pods, 2), sidecars: a.sidecars, pause: a.pause}
	f.few, f.timedFrom = min(fewPods, f.pods), min(timedFrom, f.pods/2)
	n, err := p.addNode(ctx, f.pods)
	if err != nil {
		return nil, fmt.Errorf("the node: %w", err)
	}
	if err := errors.Join(p.register(ctx, f.hosts), n.arrives(ctx)); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"sidecars", func() error { return p.sidecars(ctx, f) }},
		{"pods", func() error { return n.fill(ctx, f, o.progress) }},
		{"traffic", func() error { return n.traffic(ctx, f, o) }},
	} {
		f.rest(ctx, step.what)
		fmt.Fprintf(o.progress, "%s, at /proc/pressure/cpu %.0f %%\n", step.what, f.pressure[len(f.pressure)-1].percent)
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	f.rest(ctx, "the end")
	return f, ctx.Err()
}

// addNode brings up the node, shows all of its pods to the control plane, and adds the two that traffic is between.
func (p *programmed) addNode(ctx context.Context, pods int) (*node, error) {
	n := &node{programmed: p, side: side{name: "node", world: p.world, self: p.self}}
	objects := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {istio.io/dataplane-mode: ambient}}\n"+
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: answering, namespace: %[1]s}\nspec: {clusterIP: %s, selector: {app: p1}, ports: [{name: http, port: %d}]}\n", ambientNamespace, ambientService, podPort)
	for i := range pods {
		n.pods = append(n.pods, &ambientPod{name: fmt.Sprintf("p%d", i), addr: addressOf(i)})
		objects += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d, namespace: %s, labels: {app: p%[1]d}}\nspec: {serviceAccountName: p%[1]d, nodeName: node-1, containers: []}\nstatus: {podIP: %[3]s, phase: Running}\n", i, ambientNamespace, n.pods[i].addr)
	}
	if err := errors.Join(p.world.Widen(), p.scene.Config.Write("without.yaml", objects)); err != nil {
		return nil, err
	}
	var err error
	if n.at, err = p.scene.AddNode(ctx, "node-1", nodeAt, "--concurrency", "1"); err != nil {
		return nil, err
	}
	for _, pod := range n.pods[:2] {
		if _, err := n.add(ctx, pod); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(n.serveApp(n.pods[1].host, n.pods[1].addr), ports(ctx, n.pods[0].host, n.pods[1].host)); err != nil {
		return nil, err
	}
	envoy, err := only(n.at.Host, "envoy")
	if err != nil {
		return nil, err
	}
	out, agent := p.side.ends[egress], n.at.Process.PID()
	n.side.ends = map[way]*end{
		egress: {from: n.pods[0].host, host: out.host, plain: out.plain, tls: out.tls, leaf: out.leaf, envoys: [2]int{envoy, out.envoys[1]}, agents: []int{agent, out.agents[1]}},
		mesh:   {from: n.pods[0].host, host: ambientHost, addr: ambientService, plain: podPort, envoys: [2]int{envoy, 0}, agents: []int{agent}},
	}
	return n, nil
}

// addressOf is the i-th pod's: of the two that traffic is between in the network of the rest, of the others in another one behind the same router.
func addressOf(i int) netip.Addr {
	if i < 2 {
		return netip.AddrFrom4([4]byte{10, 77, 0, byte(70 + i)})
	}
	return netip.AddrFrom4([4]byte{10, 77, 1, byte(i)})
}

// add makes a pod's network and has the pod taken in, and says how long the second took: as the CNI plugin asks for it.
func (n *node) add(ctx context.Context, pod *ambientPod) (took time.Duration, err error) {
	if pod.host, err = n.side.world.AddPod(pod.name, pod.addr); err != nil {
		return 0, err
	}
	began := time.Now()
	err = n.ask(ctx, map[string]any{"do": "add", "namespace": ambientNamespace, "name": pod.name, "network": "/run/netns/" + pod.host.Namespace(), "patience": 30 * time.Second})
	return time.Since(began), err
}

// ask asks the agent by its socket.
func (n *node) ask(ctx context.Context, question any) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(n.at.RunDir(), "pods.sock"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var answer struct{ Error string }
	if err := errors.Join(json.NewEncoder(conn).Encode(question), json.NewDecoder(conn).Decode(&answer)); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// known waits until the agent has heard of all pods, so that adding one waits for nobody to tell of it.
func (n *node) known(ctx context.Context) error {
	return world.Within(ctx, readyWithin, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:15020/debug/pods", nil)
		if err != nil {
			return err
		}
		resp, err := n.at.Host.HTTPClient().Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if got := strings.Count(string(text), `"`+ambientNamespace+"/"); got < len(n.pods) {
			return fmt.Errorf("the agent has heard of %d of %d pods", got, len(n.pods))
		}
		return nil
	})
}

// arrives waits until traffic of the node's pods does.
func (n *node) arrives(ctx context.Context) error {
	for _, l := range n.loads() {
		if err := world.Within(ctx, readyWithin, func() error { return n.answered(ctx, &n.side, l) }); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	return nil
}

// loads are those of ways that begin in a pod.
func (n *node) loads() []traffic {
	return slices.DeleteFunc(slices.Clone(loads), func(l traffic) bool { return l.Way == ingress })
}

// answered has one request made.
func (n *node) answered(ctx context.Context, s *side, l traffic) error {
	got, err := s.round(ctx, order{traffic: l, Clients: 1, Duration: time.Minute, Requests: 1})
	if err == nil && got.Failures > 0 {
		err = errors.New(got.First)
	}
	return err
}

// sidecars looks at the memory of some, which come for it and go again.
func (p *programmed) sidecars(ctx context.Context, f *ambientFigures) error {
	if f.sidecars == 0 {
		return nil
	}
	objects := ""
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(100 + i)}) }
	for i := range f.sidecars {
		objects += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: beside-%d, namespace: default, labels: {app: beside}}\nspec: {serviceAccountName: beside, containers: []}\nstatus: {podIP: %s, phase: Running}\n", i, at(i))
	}
	if err := p.scene.Config.Write("beside-them.yaml", objects); err != nil {
		return err
	}
	var pods []*story.Pod
	for i := range f.sidecars {
		pod, err := p.scene.AddSidecar(ctx, fmt.Sprintf("beside-%d", i), "default", "beside", at(i), "app=beside")
		if err != nil {
			return err
		}
		pods = append(pods, pod)
	}
	pause(ctx, f.pause)
	for _, pod := range pods {
		e := &end{}
		if err := world.Within(ctx, readyWithin, func() error { return e.proxies([2]*world.Host{pod.Host(), pod.Host()}) }); err != nil {
			return err
		}
		m, err := settled(ctx, e.envoys[0], e.agents[0])
		if err != nil {
			return err
		}
		f.sidecar = append(f.sidecar, m)
	}
	var errs []error
	for _, pod := range pods {
		errs = append(errs, pod.Kill(ctx))
	}
	return errors.Join(append(errs, p.scene.Config.Remove("beside-them.yaml"))...)
}

// fill adds the node's other pods, and looks at its memory on the way.
func (n *node) fill(ctx context.Context, f *ambientFigures, progress io.Writer) error {
	if err := n.known(ctx); err != nil {
		return err
	}
	e := n.side.ends[egress]
	for i, pod := range n.pods {
		if i < 2 {
			continue
		}
		if i == f.few {
			if err := n.note(ctx, f.pause, &f.node[0], e); err != nil {
				return err
			}
		}
		took, err := n.add(ctx, pod)
		if err != nil {
			return err
		}
		if i >= f.timedFrom && i < f.timedFrom+timedPods {
			f.added = append(f.added, took)
		}
		if i%50 == 0 {
			fmt.Fprintf(progress, "%d pods\n", i)
		}
	}
	if f.few == len(n.pods) {
		if err := n.note(ctx, f.pause, &f.node[0], e); err != nil {
			return err
		}
	}
	if err := n.note(ctx, f.pause, &f.node[1], e); err != nil {
		return err
	}
	kept := traffic{Name: "served", Way: egress, TLS: true}
	for _, pod := range n.pods {
		own := *e
		own.from = pod.host
		s := &side{name: pod.name, self: n.side.self, ends: map[way]*end{egress: &own}}
		if err := world.Within(ctx, readyWithin, func() error { return n.answered(ctx, s, kept) }); err != nil {
			return fmt.Errorf("%s: %w", pod.name, err)
		}
		f.served++
	}
	return nil
}

func (n *node) note(ctx context.Context, rest time.Duration, into *memory, e *end) (err error) {
	pause(ctx, rest)
	*into, err = settled(ctx, e.envoys[0], e.agents[0])
	return err
}

// traffic takes the rounds of both in turn, with the controller at rest.
func (n *node) traffic(ctx context.Context, f *ambientFigures, o plan) error {
	if err := errors.Join(n.side.place(), n.rest(true)); err != nil {
		return err
	}
	for _, l := range n.loads() {
		if !slices.ContainsFunc(o.loads, func(wanted traffic) bool { return wanted.Name == l.Name }) {
			continue
		}
		one := pair{Hosts: f.hosts, Load: l.Name, Way: l.Way}
		for round := range o.rounds {
			if err := one.round(ctx, &n.side, &n.programmed.side, order{traffic: l, Clients: o.clients, Warm: o.warm, Duration: o.duration}, round%2 == 1); err != nil {
				return err
			}
		}
		fmt.Fprintf(o.progress, "%s: %.3f of a sidecar's throughput, %.3f of its p99\n", l.Name, one.throughput(), one.p99())
		if f.first == "" {
			f.first = one.First
		}
		f.traffic = append(f.traffic, one)
	}
	return n.rest(false)
}
