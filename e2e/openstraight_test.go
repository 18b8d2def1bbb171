package e2e

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestStraightRequestsEnd holds that requests which leave straight from a pod end, each by itself, with the rule that let them through and when an edit denies them.
func TestStraightRequestsEnd(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	o := &openStraight{openEnds: openEnds{policed: policed{ctx: ctx, scene: s, app: appOf(s)}, callers: map[string]caller{"app": appOf(s)}}, namespace: "default", host: s.App.Host(), agent: s.App.Signal}
	o.set(t)
	inOrder(t, o.parts())
}

// TestStraightRequestsEndAtNodes holds that those of pods without sidecars do, each pod's by its own namespace's policies.
func TestStraightRequestsEndAtNodes(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	a := &ambientNode{ctx: ctx, scene: s}
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr); err != nil {
		t.Fatal(err)
	}
	a.alpha, a.beta = a.pod(t, "alpha", alphaAddr), a.pod(t, "beta", betaAddr)
	o := &openStraight{
		openEnds:  openEnds{policed: policed{ctx: ctx, scene: s, app: a.alpha.caller}, callers: map[string]caller{"app": a.alpha.caller, "beta": a.beta.caller}},
		namespace: "alpha", host: a.node.Host, agent: func(sig syscall.Signal) error { return syscall.Kill(a.node.Process.PID(), sig) },
	}
	o.set(t)
	inOrder(t, slices.Insert(o.parts(), 1, part{"a neighbour's rules", func(*testing.T) { // whose requests stay open
		a.write(t, "beta-policy.yaml", "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: beta}\n"+
			"spec: {rules: [{hosts: [talks.open.test], paths: ['/in/*'], action: Allow}, {hosts: [talks.open.test], headers: [{name: X-Stage, value: test}], action: Allow}]}\n")
		o.told(t, "beta", "/in/one")
		o.beside = []*talk{o.open(t, "beta", "http", "talks.open.test/in/one"), o.open(t, "beta", "ws", "talks.open.test/in/ws")}
	}}))
}

// openStraight are requests that leave straight from a proxy, whose agent can end them.
type openStraight struct {
	openEnds
	namespace string // of who asks, and its policies
	host      *world.Host
	agent     func(syscall.Signal) error // tells the proxy's agent
	beside    []*talk                    // others', which go on
}

func (o *openStraight) set(t *testing.T) {
	t.Helper()
	o.serve(t)
	o.serveHTTP2(t)
	o.straight(t)
	if err := o.scene.SetPolicy(o.ctx, "ALLOW_ANY"); err != nil {
		t.Fatal(err)
	}
}

func (o *openStraight) parts() []part {
	return []part{
		{"without a policy", o.without},
		{"an edit that denies", o.edited},
		{"an edit that changes nothing for them", o.unchanged},
		{"a rule that looks at headers", o.headers},
		{"an entry that is taken away", o.unregistered},
		{"a rule's end, without a controller, while the agent stands still", o.expired},
	}
}

// write writes the policy.
func (o *openStraight) write(t *testing.T, spec string) {
	t.Helper()
	text := "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: " + o.namespace + "}\nspec:\n" + spec
	if err := o.scene.Config.Write("policy.yaml", text); err != nil {
		t.Fatal(err)
	}
}

// unregistered: an entry that goes, or is none of this workload's any more, ends what it let out, where nothing else does.
func (o *openStraight) unregistered(t *testing.T) {
	for _, k := range o.beside { // it is registered for them no more, either
		_ = k.conn.Close()
	}
	o.beside = nil
	o.write(t, "  rules: [{hosts: ['*.open.test'], action: Allow, name: list}]\n")
	if err := o.scene.SetPolicy(o.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	ways := []narrowing{removed, exported}
	if o.namespace == "default" { // at a node the first Sidecar of a namespace gives its pods other listeners, and what they have ends with these (docs/adr/0134)
		ways = append(ways, sidecars)
	}
	for _, by := range ways {
		o.told(t, "app", "/stays")
		app := o.calls(t, "app")
		o.narrowed(t, by, func(t *testing.T, exportTo string) { o.straightTalks(t, exportTo) }, "talks.open.test", func(host string) []*talk {
			if host == "calls.open.test" {
				return []*talk{o.call(t, app, "app", "/stays")}
			}
			return []*talk{o.open(t, "app", "http", host+"/in/one"), o.open(t, "app", "ws", host+"/in/ws"), o.upload(t, "app", "POST", "/in/upload")}
		}, "calls.open.test")
	}
	o.recordedAsEndedSince(t, "the host is not registered any more", "talks.open.test", "/in/one")
	o.remove(t, "policy.yaml")
	if err := o.scene.SetPolicy(o.ctx, "ALLOW_ANY"); err != nil {
		t.Fatal(err)
	}
}

// straight registers the hosts, which leave from the pod, and has a name that nobody registers.
func (o *openStraight) straight(t *testing.T) {
	t.Helper()
	o.straightTalks(t, "")
	o.straightEntry(t, "calls", "GRPC", echoesHTTP2, "")
	o.scene.Outside.Set("free.open.test", time.Minute, world.OutsideAddrs[0])
}

func (o *openStraight) straightTalks(t *testing.T, exportTo string) {
	t.Helper()
	o.straightEntry(t, "talks", "HTTP", echoesHTTP, exportTo)
}

func (o *openStraight) straightEntry(t *testing.T, name, protocol string, port int, exportTo string) {
	t.Helper()
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: default, annotations: {egress.sallyport.io/gateway: direct}}\n" +
		"spec: {hosts: [%s.open.test], location: MESH_EXTERNAL, resolution: DNS, exportTo: [%s], ports: [{number: %d, name: %s, protocol: %s}]}\n"
	if err := o.scene.Config.Write("open-"+name+".yaml", fmt.Sprintf(entry, name, name, exportTo, port, strings.ToLower(protocol), protocol)); err != nil {
		t.Fatal(err)
	}
}

const straightRules = "  rules: [{hosts: [talks.open.test, calls.open.test, free.open.test], paths: [%s], action: Allow, name: talks}]\n"

// ended is how many requests the proxy's agent has ended.
func (o *openStraight) ended(t *testing.T) float64 {
	t.Helper()
	return metricAt(o.ctx, t, o.host, "sallyport_agent_tunnels_ended_total")
}

// without a policy nobody is told of anything, and a request passes.
func (o *openStraight) without(t *testing.T) {
	for _, host := range []string{"talks.open.test/in/one", "free.open.test/in/one"} {
		o.goOn(t, []*talk{o.open(t, "app", "http", host)})
	}
	if under := metricAt(o.ctx, t, o.host, "sallyport_agent_requests_under_way"); under != 0 {
		t.Errorf("%v requests are told of", under)
	}
}

// told waits until all of the proxy's threads tell of requests: what was under way when the first policy came goes on.
func (o *openStraight) told(t *testing.T, who, path string) {
	t.Helper()
	under := func() float64 { return metricAt(o.ctx, t, o.host, "sallyport_agent_requests_under_way") }
	if err := world.Within(o.ctx, 3*time.Minute, func() error {
		var open []*talk
		defer func() {
			for _, k := range open {
				_ = k.conn.Close()
			}
		}()
		for range 10 {
			before := under()
			if open = append(open, o.open(t, who, "http", "talks.open.test"+path)); under() <= before {
				return errors.New("a request is told to nobody")
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// edited: answers, uploads, upgrades and calls that share their connections.
func (o *openStraight) edited(t *testing.T) {
	o.write(t, fmt.Sprintf(straightRules, "'/in/*', /stays, /upload/stays"))
	o.told(t, "app", "/stays")
	app := o.calls(t, "app")
	gone := []*talk{
		o.open(t, "app", "http", "talks.open.test/in/one"), o.open(t, "app", "http", "free.open.test/in/free"), o.open(t, "app", "ws", "talks.open.test/in/ws"),
		o.call(t, app, "app", "/in/call"), o.upload(t, "app", "POST", "/in/upload"), o.upload(t, "app", "GET", "/in/upload"),
	}
	stay := append(o.beside,
		o.open(t, "app", "http", "talks.open.test/stays"), o.open(t, "app", "http", "free.open.test/stays"), o.open(t, "app", "ws", "talks.open.test/stays"),
		o.call(t, app, "app", "/stays"), o.upload(t, "app", "POST", "/upload/stays"),
	)
	before, since := o.ended(t), time.Now()
	o.write(t, fmt.Sprintf(straightRules, "/stays, /upload/stays"))
	o.end(t, since, gone, stay)
	o.onwards(t, stay)
	if now := o.ended(t); now != before+float64(len(gone)) {
		t.Errorf("%v were ended, want %d", now-before, len(gone))
	}
	for _, path := range []string{"/in/one", "/in/ws", "/in/upload"} {
		o.recordedAsEndedBy(t, o.namespace+"/list", "talks.open.test", path)
	}
	o.recordedAsEndedBy(t, o.namespace+"/list", "free.open.test", "/in/free")
	o.recordedAsEndedBy(t, o.namespace+"/list", "calls.open.test", "/in/call")
}

func (o *openStraight) unchanged(t *testing.T) {
	stay := []*talk{o.open(t, "app", "http", "talks.open.test/stays"), o.open(t, "app", "ws", "talks.open.test/stays")}
	before := o.ended(t)
	o.write(t, fmt.Sprintf(straightRules, "/stays, /more"))
	o.goOn(t, append(stay, o.open(t, "app", "http", "talks.open.test/more"))) // it is in force
	o.onwards(t, stay)
	if now := o.ended(t); now != before {
		t.Errorf("%v requests were ended", now-before)
	}
}

// headers: nobody knows any more what a request's headers were, so what is denied by them says nothing of one that is under way.
func (o *openStraight) headers(t *testing.T) {
	stay := []*talk{o.open(t, "app", "http", "talks.open.test/stays")}
	o.write(t, "  rules: [{hosts: [talks.open.test], paths: [/more, /later], action: Allow}, {hosts: [talks.open.test], headers: [{name: X-Stage, value: test}], action: Allow}]\n")
	o.goOn(t, append(stay, o.open(t, "app", "http", "talks.open.test/later"))) // it is in force
	o.keeps(t)
	o.onwards(t, stay)
}

// expired: Envoy itself ends what a rule let through that ends, and the agent has no part in it.
func (o *openStraight) expired(t *testing.T) {
	began := time.Now()
	o.write(t, "  rules: [{hosts: [talks.open.test], paths: [/began], action: Allow}]\n")
	o.keeps(t) // there was no policy, and what passes without one goes on
	o.told(t, "app", "/began")
	end := time.Now().Add(lead(began)).Truncate(time.Second)
	o.write(t, fmt.Sprintf("  rules: [{hosts: [talks.open.test], paths: ['/ends/*'], action: Allow, name: ends, expires: %q}, {hosts: [talks.open.test], paths: [/goes/on], action: Allow}]\n", end.UTC().Format(time.RFC3339)))
	gone := []*talk{o.open(t, "app", "http", "talks.open.test/ends/one"), o.open(t, "app", "ws", "talks.open.test/ends/ws")}
	stay := []*talk{o.open(t, "app", "http", "talks.open.test/goes/on")}
	if err := o.scene.Controller.Kill(o.ctx); err != nil {
		t.Fatal(err)
	}
	if err := o.agent(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.agent(syscall.SIGCONT) })
	o.upTo(t, end, gone, stay)
	o.end(t, end, gone, stay)
	if err := gone[0].say(); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an answer that was cut ends with %v", err)
	}
	o.onwards(t, stay)
	if err := o.agent(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
