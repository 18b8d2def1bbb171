package incluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/cluster"
	"github.com/sallyport/sallyport/e2e/cluster/images"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// calm is the namespace whose pods are in the mesh without sidecars.
const calm = "calm"

const agentLabel = "app=sallyport-ambient"

// pluginBinary is the CNI plugin that the agent installs.
const pluginBinary = "sallyport-cni"

// placeValues say where this cluster has its CNI plugins, and how little its node has.
func placeValues() []string {
	return []string{
		"ambient.resources.requests.cpu=10m", "ambient.resources.requests.memory=32Mi", "ambient.drainSeconds=10",
		"ambient.runDir=" + filepath.Join(cluster.Dir, "sallyport-node"), "ambient.cni.binDir=" + cluster.CNIBinDir, "ambient.cni.confDir=" + cluster.CNIConfDir,
	}
}

// TestAmbient tells what the release does for pods without sidecars, in order.
func TestAmbient(t *testing.T) {
	s := prepare(t)
	// A client on a busy machine may be silent for seconds after it has connected; what it begins with is looked for that long.
	s.install(append(placeValues(), "ambient.enabled=true", "meshConfig.protocolDetectionTimeout=10s")...)
	s.kubectl("rollout", "status", "-n", system, "daemonset/sallyport-ambient", "--timeout=3m")
	for _, step := range []struct {
		name string
		do   func(*stage)
	}{
		{"a namespace is labelled later", (*stage).labelledLater},
		{"out by the gateway, as itself", (*stage).leavesAsItself},
		{"pods reach each other", (*stage).reachEachOther},
		{"probes", (*stage).probesWork},
		{"probes under STRICT", (*stage).probesUnderStrict},
		{"a pod that says none", (*stage).saysNone},
		{"a namespace moves, and back", (*stage).moves},
		{"what is not kept closes, and is said", (*stage).notKept},
		{"a pod is deleted", (*stage).podDeleted},
		{"the agent is killed", (*stage).agentKilled},
		{"the agent is away", (*stage).agentAway},
		{"the agents are rolled", (*stage).agentsRolled},
		{"controllers are away", (*stage).controllersAway},
		{"the namespace leaves the mesh, and comes back", (*stage).leavesAndComesBack},
		{"the node starts again", (*stage).nodeRestarts},
		{"uninstalled", (*stage).ambientUninstalled},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(s.in(t)) }) {
			return // what comes next builds on it
		}
	}
}

// inside says whether a pod's app gets a 200, asked without its network.
func (s *stage) inside(ns, name, url string) error {
	_, err := s.run(s.Context(), s.Kubectl, "exec", "-n", ns, "deployment/"+name, "--", "/usr/local/bin/app", "-get="+url, "-patience=2s")
	return err
}

// taken waits until a pod is in the mesh: what nobody registered is closed, and the node's listeners are open in its network.
func (s *stage) taken(ns, name string) {
	s.Helper()
	ip := s.podIP(ns, name)
	s.becomes(name+" is taken in", time.Minute, func() error {
		if err := s.inside(ns, name, "http://"+outsideAddrs[2].String()+"/taken"); err == nil {
			return errors.New("what nobody registered is open")
		}
		return reaches(s.Context(), ip, "http://127.0.0.1:8080/healthz")
	})
}

// free waits until a pod is out of it.
func (s *stage) free(ns, name, when string) {
	s.Helper()
	s.becomes("the world is open "+when, time.Minute, func() error { return s.inside(ns, name, "http://"+nobody+"/free") })
}

// labelledLater: pods that run already are taken in as they are; those that come are before they start.
func (s *stage) labelledLater() {
	s.kubectl("create", "namespace", calm)
	s.copyRoots(calm)
	s.startApp(calm, "app")
	s.free(calm, "app", "before the label")
	started := s.startedAs(calm, "app")
	began := time.Now()
	s.kubectl("label", "namespace", calm, "istio.io/dataplane-mode=ambient")
	s.taken(calm, "app")
	s.Logf("taken in %s after the label", since(began))
	if now := s.startedAs(calm, "app"); now != started {
		s.Errorf("the pod is %s, and was %s", now, started)
	}
	s.startApp(calm, "second")
	if err := s.inside(calm, "second", "http://"+outsideAddrs[2].String()+"/early"); err == nil || len(s.outside.Sightings("/early")) > 0 {
		s.Errorf("a pod that came after the label went around the mesh: %v", err)
	}
}

// startedAs is which pod runs, and how often it was started.
func (s *stage) startedAs(ns, app string) string {
	s.Helper()
	return s.kubectl("get", "pods", "-n", ns, "-l", "app="+app, "-o", "jsonpath={.items[*].metadata.uid} {.items[*].status.containerStatuses[*].restartCount}")
}

// copyRoots gives a namespace what its apps verify the outside by.
func (s *stage) copyRoots(ns string) {
	s.Helper()
	s.kubectl("create", "configmap", "-n", ns, "outside-roots", "--from-literal=roots.pem="+string(s.outside.CA.PEM()))
}

// leavesAsItself: what is registered leaves by the gateway with the pod's own identity, what is not goes nowhere, and both are recorded with
// their names.
func (s *stage) leavesAsItself() {
	s.apply(entry(calm, "external", external))
	app := s.podIP(calm, "app")
	for _, url := range []string{"http://" + external + "/plain", "https://" + external + "/tls"} {
		s.becomes(url, time.Minute, func() error { return reaches(s.Context(), app, url) })
	}
	gateways := s.kubectl("get", "pods", "-n", system, "-l", "istio=egressgateway", "-o", "jsonpath={.items[*].status.podIP} ")
	for _, path := range []string{"/plain", "/tls"} {
		for _, v := range s.outside.Sightings(path) {
			if !strings.Contains(gateways, v.Peer.Addr().String()+" ") {
				s.Errorf("the outside saw %s, want it from one of %s", v, gateways)
			}
		}
	}
	s.must(blocked(s.Context(), app, "http://"+nobody+"/"))
	for _, raw := range []string{"http://" + nobody + "/raw", "https://" + nobody + "/raw"} { // without DNS, which refuses it
		port := map[bool]string{true: ":443", false: ":80"}[strings.HasPrefix(raw, "https")]
		if f, err := get(s.Context(), "http://"+app+":8080/fetch?timeout=5s&insecure=1&url="+raw+"&connect="+outsideAddrs[2].String()+port); err != nil || strings.Contains(f, `"status":200`) {
			s.Errorf("%s: %s (%v)", raw, f, err)
		}
	}
	s.becomes("all of it is recorded", time.Minute, func() error {
		all, err := s.records("--since", "1h")
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, r := range all {
			if r.Workload.Principal == "spiffe://cluster.local/ns/calm/sa/app" && strings.HasPrefix(r.Workload.Name, "app-") {
				seen[fmt.Sprint(r.Host, r.Verdict, r.Path, r.Class == record.DNS)] = true
			}
			if r.Workload.Principal == "spiffe://cluster.local/ns/calm/sa/app" && r.Reporter == record.ReporterGateway {
				seen["by the gateway"] = true
			}
		}
		for _, want := range []string{
			"by the gateway", fmt.Sprint(nobody, record.Denied, record.PathBlackhole, false), fmt.Sprint(nobody, record.Denied, record.PathBlackhole, true),
		} {
			if !seen[want] {
				return fmt.Errorf("no record %q among %v", want, seen)
			}
		}
		return nil
	})
}

const appService = "apiVersion: v1\nkind: Service\nmetadata: {name: app, namespace: %s}\nspec: {selector: {app: app}, ports: [{name: http, port: 8080}, {name: tcp, port: 9090}]}\n"

// reachEachOther: with a sidecar, by the node's proxy, or in no mesh, by addresses and by names.
func (s *stage) reachEachOther() {
	for _, ns := range []string{shop, plain} {
		s.startApp(ns, "app")
	}
	for _, ns := range []string{shop, plain, calm} {
		s.apply(fmt.Sprintf(appService, ns))
	}
	for _, from := range []string{calm, shop, plain} {
		app := s.podIP(from, "app")
		for _, to := range []string{calm, shop, plain} {
			ip := s.podIP(to, "app")
			for _, host := range []string{ip, "app." + to, "app." + to + ".svc.cluster.local"} {
				s.becomes(from+" to "+to+" as "+host, time.Minute, func() error { return reaches(s.Context(), app, "http://"+host+":8080/") })
				s.becomes(from+" to "+to+" as "+host+", bytes", time.Minute, func() error {
					body, err := get(s.Context(), "http://"+app+":8080/tcp?timeout=3s&send=hello&addr="+host+":9090")
					if err == nil && !strings.Contains(body, ": hello") {
						err = errors.New(body)
					}
					return err
				})
			}
			if from == calm && to == plain {
				if f, err := fetch(s.Context(), app, "http://"+ip+":8080/", 20*time.Second); err != nil || !strings.Contains(f.Body, app) {
					s.Errorf("the server did not see the client's address %s: %s (%v)", app, f, err)
				}
			}
		}
	}
}

// probesWork: those of every kind are answered by the app.
func (s *stage) probesWork() {
	text, err := os.ReadFile("testdata/apps.yaml")
	s.must(err)
	for _, document := range strings.Split(string(text), "---\n") {
		if strings.Contains(document, "metadata: {name: probes,") {
			s.apply(strings.NewReplacer("$IMAGE", images.Ref(images.App), "namespace: "+shop, "namespace: "+calm).Replace(document))
		}
	}
	s.kubectl("rollout", "status", "-n", calm, "deployment/probes", "--timeout=3m")
}

// probesUnderStrict: the kubelet gets to the app of pods that take mutual TLS only, those that run and those that come; nobody else does without it.
func (s *stage) probesUnderStrict() {
	s.apply(strictForCalm)
	app, out := s.podIP(calm, "app"), s.podIP(plain, "app")
	s.becomes("what is plain is refused", time.Minute, func() error {
		if f, err := fetch(s.Context(), out, "http://"+app+":8080/", 5*time.Second); err == nil && f.Status == 200 {
			return errors.New("it is let in")
		}
		return nil
	})
	s.worksAgain("under STRICT")
	first := s.kubectl("get", "pods", "-n", calm, "-l", "app=probes", "-o", "name")
	s.kubectl("rollout", "restart", "-n", calm, "deployment/probes")
	s.kubectl("rollout", "status", "-n", calm, "deployment/probes", "--timeout=3m")
	s.kubectl("wait", "-n", calm, "--for=delete", strings.TrimSpace(first), "--timeout=3m")
	before, probed := s.startedAs(calm, "probes"), s.podIP(calm, "probes")
	for began := time.Now(); time.Since(began) < 5*time.Second; { // rounds of probes, each of which takes a second
		for what, url := range map[string]string{"the port of a probe": "http://" + probed + ":8101/healthz", "a port": "http://" + app + ":8080/"} {
			if f, err := fetch(s.Context(), out, url, 5*time.Second); err == nil && f.Status == 200 {
				s.Errorf("%s lets in who has no certificate: %s", what, f)
			}
		}
		s.kubectl("rollout", "status", "-n", calm, "deployment/probes", "--timeout=3m")
	}
	if now := s.startedAs(calm, "probes"); now != before {
		s.Errorf("the pods are %s, and were %s", now, before)
	}
	s.kubectl("delete", "peerauthentication", "-n", calm, "strict")
}

// saysNone: a pod's own label counts more than its namespace's.
func (s *stage) saysNone() {
	s.startApp(calm, "out", appSpec{labels: "istio.io/dataplane-mode: none"})
	s.free(calm, "out", "to a pod that says none")
	s.endApp(calm, "out")
}

const strictForCalm = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: strict, namespace: calm}\nspec: {mtls: {mode: STRICT}}\n"

const tokensForCalm = "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: tokens, namespace: calm}\n" +
	"spec: {jwtRules: [{issuer: x, jwks: '{\"keys\": [{\"kty\": \"oct\", \"k\": \"AAAA\", \"kid\": \"a\", \"alg\": \"HS256\"}]}'}]}\n"

// notKept: nobody would keep the object, so what it is for is closed while it is there, and check names it.
func (s *stage) notKept() {
	program, err := filepath.Abs("../../bin/sallyport")
	s.must(err)
	says := func() string { // its answer is no: of other pods there is something to say, too
		out, _ := s.run(s.Context(), program, "check", "--kubeconfig", s.Kubeconfig, "-n", calm, "-o", "json")
		return out
	}
	const by = "RequestAuthentication calm/tokens"
	if out := says(); !strings.Contains(out, "findings") || strings.Contains(out, "without a sidecar") {
		s.Errorf("of pods that are served: %s", out)
	}
	s.apply(tokensForCalm)
	s.becomes("it is closed", 2*time.Minute, func() error {
		if s.inside(calm, "app", "http://"+external+"/tokens") == nil {
			return errors.New("it is open")
		}
		if out := says(); !strings.Contains(out, by) {
			return fmt.Errorf("check does not name %s: %s", by, out)
		}
		return nil
	})
	s.kubectl("delete", "requestauthentication", "-n", calm, "tokens")
	s.worksAgain("after the object is gone")
}

// podDeleted: nothing of a pod is held when it is gone, though it had connections that would be used again.
func (s *stage) podDeleted() {
	s.startApp(calm, "brief")
	ip := s.podIP(calm, "brief")
	s.becomes("it reaches the outside", time.Minute, func() error { return reaches(s.Context(), ip, "http://"+external+"/brief") })
	var listeners, cables int
	s.becomes("all listeners of the pods serve", time.Minute, func() (err error) { // the one that was used may be the first of the pod's
		listeners, err = s.listeners()
		return err
	})
	cables, err := s.cables()
	s.must(err)
	network := s.networkOf(filepath.Join(cluster.Dir, "sallyport-node"), calm, "brief")
	if n, err := s.heldIn(network); err != nil || n == 0 {
		s.Errorf("the node's Envoy has no socket in the network of a pod that it serves: that shows nothing (%v)", err)
	}
	s.endApp(calm, "brief")
	began := time.Now()
	s.becomes("its network, its listeners and its cable are gone", time.Minute, func() error {
		if n, err := s.heldIn(network); err != nil || n > 0 {
			return fmt.Errorf("Envoy has %d sockets in its network (%w)", n, err)
		}
		if now, err := s.listeners(); err != nil || now > listeners-3 { // less, where something that was ended before went meanwhile, too
			return fmt.Errorf("%d listeners, before there were %d (%w)", now, listeners, err)
		}
		if now, err := s.cables(); err != nil || now > cables-1 {
			return fmt.Errorf("%d cables, before there were %d (%w)", now, cables, err)
		}
		return nil
	})
	s.Logf("nothing of the pod is held %s after its end", since(began))
}

// endApp removes an app, and returns when its pod is gone.
func (s *stage) endApp(ns, name string) {
	s.Helper()
	s.kubectl("delete", "deployment", "-n", ns, name, "--cascade=foreground")
	s.kubectl("wait", "-n", ns, "--for=delete", "pod", "-l", "app="+name, "--timeout=3m")
}

// listeners is how many Envoy of the node has, when none of them is yet to serve.
func (s *stage) listeners() (int, error) {
	ip, err := s.ask("get", "pods", "-n", system, "-l", agentLabel, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[0].status.podIP}")
	if err != nil {
		return 0, err
	}
	stats, err := get(s.Context(), "http://"+ip+":15090/stats/prometheus")
	if err != nil {
		return 0, err
	}
	counts := map[string]int{}
	for line := range strings.Lines(stats) {
		of, is := strings.CutPrefix(line, "envoy_listener_manager_total_listeners_")
		if name, value, labelled := strings.Cut(of, "{"); is && labelled {
			n, err := strconv.Atoi(strings.TrimSpace(value[strings.LastIndexByte(value, ' ')+1:]))
			if err != nil {
				return 0, fmt.Errorf("%q: %w", line, err)
			}
			counts[name] = n
		}
	}
	if counts["active"] == 0 || counts["warming"] > 0 {
		return 0, fmt.Errorf("listeners are %v, in %d bytes of statistics", counts, len(stats))
	}
	return counts["active"], nil
}

// cables is how many pods' networks are connected to the node.
func (s *stage) cables() (int, error) {
	out, err := s.NodeCommand(s.Context(), "ip", "-o", "link", "show", "type", "veth").Output()
	return strings.Count(string(out), " veth"), err
}

// worksAgain waits until what is registered is reached, while what is not stays closed.
func (s *stage) worksAgain(when string) {
	s.Helper()
	began := time.Now()
	s.becomes("it works "+when, 3*time.Minute, func() error {
		if s.inside(calm, "app", "http://"+outsideAddrs[2].String()+"/never") == nil {
			s.Errorf("what nobody registered was open %s", when)
		}
		return s.inside(calm, "app", "http://"+external+"/again")
	})
	s.Logf("it works again after %s", since(began))
	if seen := s.outside.Sightings("/never"); len(seen) > 0 {
		s.Errorf("%s, the outside saw %v", when, seen)
	}
}

// agentKilled: it is closed until the agent is back, which is soon.
func (s *stage) agentKilled() {
	s.node("pkill", "-KILL", "-f", "sallyport-node agent")
	s.worksAgain("after the agent was killed")
}

// agentAway: running pods are closed, and none starts around the mesh; what the cluster itself needs starts.
func (s *stage) agentAway() {
	s.kubectl("patch", "-n", system, "daemonset/sallyport-ambient", "-p", `{"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}`)
	s.kubectl("wait", "-n", system, "--for=delete", "pod", "-l", agentLabel, "--timeout=3m")
	for _, url := range []string{"http://" + external + "/away", "http://" + outsideAddrs[2].String() + "/away"} {
		if s.inside(calm, "app", url) == nil {
			s.Errorf("%s is open while the agent is away", url)
		}
	}
	s.kubectl("create", "deployment", "waits", "-n", calm, "--image", images.Ref(images.App))
	s.kubectl("delete", "pod", "-n", "kube-system", "-l", "k8s-app=kube-dns")
	s.becomes("another name server has started", 3*time.Minute, func() error { // there is none to wait for before its pod is made
		_, err := s.ask("wait", "-n", "kube-system", "--for=condition=Ready", "pod", "-l", "k8s-app=kube-dns", "--timeout=1m")
		return err
	})
	s.becomes("the pod's event says why it does not start", time.Minute, func() error {
		events, err := s.ask("get", "events", "-n", calm, "--field-selector", "reason=FailedCreatePodSandBox", "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(events, "the node's agent does not answer") {
			err = fmt.Errorf("events: %q", events)
		}
		return err
	})
	s.kubectl("patch", "-n", system, "daemonset/sallyport-ambient", "--type=json", "-p", `[{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]`)
	s.worksAgain("after the agent was away")
	s.kubectl("rollout", "status", "-n", calm, "deployment/waits", "--timeout=3m")
}

// agentsRolled: an upgrade closes nothing, and opens nothing. Pods come and go meanwhile.
func (s *stage) agentsRolled() {
	// Kubernetes forgets to look again whether a surplus pod is available where the one before was not yet so when the template changed.
	s.kubectl("rollout", "status", "-n", system, "daemonset/sallyport-ambient", "--timeout=3m")
	before := s.kubectl("get", "pods", "-n", system, "-l", agentLabel, "-o", "name")
	tr := s.begin(s.podIP(calm, "app"))
	s.kubectl("rollout", "restart", "-n", system, "daemonset/sallyport-ambient")
	for i := 0; s.noneOf(before, "sallyport-ambient") != nil; i++ { // as many as come in the time that it takes
		name := fmt.Sprintf("rolled-%d", i)
		s.startApp(calm, name)
		s.must(reaches(s.Context(), s.podIP(calm, name), "http://"+external+"/"+name))
		s.endApp(calm, name)
	}
	s.kubectl("rollout", "status", "-n", system, "daemonset/sallyport-ambient", "--timeout=3m")
	s.worksAgain("after the agents were rolled")
	if s.end(tr); s.Failed() {
		text, err := s.audit("query", "--since", "3m", "--host", external, "--limit", "400", "-o", "csv")
		s.Logf("what is recorded of %s (%v):\n%s", external, err, text)
	}
	s.kubectl("rollout", "status", "-n", calm, "deployment/probes", "--timeout=3m")
}

// controllersAway: running pods do not notice; one that comes waits.
func (s *stage) controllersAway() {
	s.kubectl("scale", "-n", system, "deployment/sallyport", "--replicas=0")
	s.kubectl("wait", "-n", system, "--for=delete", "pod", "-l", "app=sallyport", "--timeout=3m")
	app := s.podIP(calm, "app")
	for range 10 {
		s.must(reaches(s.Context(), app, "http://"+external+"/alone"))
		s.must(blocked(s.Context(), app, "http://"+nobody+"/alone"))
	}
	s.kubectl("scale", "-n", system, "deployment/sallyport", "--replicas=2")
	s.kubectl("rollout", "status", "-n", system, "deployment/sallyport", "--timeout=2m")
	s.worksAgain("after controllers were away")
}

// leavesAndComesBack: without the label the pods are let out as they run, and taken in again with it.
func (s *stage) leavesAndComesBack() {
	s.kubectl("label", "namespace", calm, "istio.io/dataplane-mode-")
	s.free(calm, "app", "after the label is gone")
	s.kubectl("label", "namespace", calm, "istio.io/dataplane-mode=ambient")
	s.taken(calm, "app")
	s.worksAgain("after the label is back")
}

// ambientUninstalled: the node is as it was, and the pods go on without the mesh.
func (s *stage) ambientUninstalled() {
	s.helm("uninstall", "sallyport", "-n", system, "--wait", "--timeout", "3m")
	s.kubectl("wait", "-n", system, "--for=delete", "pod", "-l", agentLabel, "--timeout=3m")
	s.free(calm, "app", "without the mesh")
	if left := s.pluginLeft(); left != nil {
		s.Error(left)
	}
	if tables, err := s.NodeCommand(s.Context(), "nft", "list", "tables").Output(); err != nil || strings.Contains(string(tables), "sallyport_kubelet") {
		s.Errorf("the node's network has tables %q (%v)", tables, err)
	}
	s.startApp(calm, "after")
	s.free(calm, "after", "to a pod that came later")
}

// pluginLeft says what the node still has of the plugin.
func (s *stage) pluginLeft() error {
	var errs []error
	if _, err := os.Stat(filepath.Join(cluster.CNIBinDir, pluginBinary)); err == nil {
		errs = append(errs, errors.New("the plugin's binary is still there"))
	}
	files, err := filepath.Glob(filepath.Join(cluster.CNIConfDir, "*"))
	errs = append(errs, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errs = append(errs, err); strings.Contains(string(text), pluginBinary) {
			errs = append(errs, fmt.Errorf("%s still calls the plugin: %s", file, text))
		}
	}
	return errors.Join(errs...)
}

// removeAmbient takes away what a run that died left on the node, without which no pod would start.
func (s *stage) removeAmbient(ctx context.Context) {
	if s.pluginLeft() == nil {
		return
	}
	_, _ = s.run(ctx, s.Kubectl, "wait", "-n", system, "--for=delete", "pod", "-l", agentLabel, "--timeout=3m")
	if s.pluginLeft() != nil {
		s.must(errors.Join(cluster.RestoreCNI(), os.Remove(filepath.Join(cluster.CNIBinDir, pluginBinary))))
	}
}
