package incluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sallyport/sallyport/e2e/cluster/images"
)

// roams is the namespace that is moved between sidecars and the node's proxy.
const roams = "roams"

// moves: a namespace goes from sidecars to the node's proxy and back, its Deployment rolled, and no client sees it: with a sidecar, without, or in no mesh, on kept
// connections and on new ones, nor what the moving pods themselves ask outside. Nothing sends a request again. Then the same where nothing but mutual TLS comes in.
func (s *stage) moves() {
	s.prepareMove()
	all := []string{plain, shop, calm}
	s.underLoad("in no mesh, rolled", all, s.roll)
	s.underLoad("to sidecars", all, func() {
		s.kubectl("label", "namespace", roams, "istio-injection=enabled")
		s.roll()
	})
	s.hasSidecars()
	s.underLoad("from sidecars to the node's proxy", all, s.toNode)
	s.underLoad("from the node's proxy to sidecars", all, s.toSidecars)
	s.apply("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: strict, namespace: roams}\nspec: {mtls: {mode: STRICT}}\n")
	outsider := s.podIP(plain, "caller")
	s.becomes("what is plain is refused", time.Minute, func() error {
		if reaches(s.Context(), outsider, "http://web.roams:8080/") == nil {
			return errors.New("it is let in")
		}
		return nil
	})
	inMesh := []string{shop, calm}
	s.underLoad("STRICT, from sidecars to the node's proxy", inMesh, s.toNode)
	s.underLoad("STRICT, from the node's proxy to sidecars", inMesh, s.toSidecars)
	if seen := s.outside.Sightings("/never"); len(seen) > 0 {
		s.Errorf("while it moved, the outside saw %v", seen)
	}
	s.endApp(roams, "web") // what comes next counts what pods have on the node
	s.kubectl("delete", "namespace", roams, "--wait=false")
	for _, ns := range all {
		s.endApp(ns, "caller")
	}
}

// prepareMove starts what is moved, in no mesh, and who asks it.
func (s *stage) prepareMove() {
	s.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: roams}\n")
	s.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: calm, labels: {istio.io/dataplane-mode: ambient}}\n")
	for _, ns := range []string{plain, shop, calm} {
		if _, err := s.run(s.Context(), s.Kubectl, "get", "configmap", "-n", ns, "outside-roots"); err != nil {
			s.copyRoots(ns)
		}
		s.startApp(ns, "caller")
	}
	s.apply(entry(roams, "external", external))
	text, err := os.ReadFile("testdata/roams.yaml")
	s.must(err)
	s.apply(strings.ReplaceAll(string(text), "$IMAGE", images.Ref(images.App)))
	s.kubectl("rollout", "status", "-n", roams, "deployment/web", "--timeout=3m")
	for _, ns := range []string{plain, shop, calm} {
		caller := s.podIP(ns, "caller")
		s.becomes(ns+" reaches what will be moved", time.Minute, func() error { return reaches(s.Context(), caller, "http://web.roams:8080/") })
	}
}

// toNode moves the namespace from sidecars to the node's proxy: pods have the one or the other from their start to their end.
func (s *stage) toNode() {
	s.kubectl("label", "namespace", roams, "istio-injection-", "istio.io/dataplane-mode=ambient")
	s.roll()
	if kinds := s.proxies(); strings.Contains(kinds, "istio-proxy") {
		s.Errorf("the pods have %s, and none should have a sidecar", kinds)
	}
	s.neverOutside("by the node's proxy")
}

// toSidecars moves it back: the label of the node's proxy stays until the last pod without a sidecar is gone.
func (s *stage) toSidecars() {
	s.kubectl("label", "namespace", roams, "istio-injection=enabled")
	s.roll()
	s.kubectl("label", "namespace", roams, "istio.io/dataplane-mode-")
	s.hasSidecars()
}

func (s *stage) hasSidecars() {
	s.Helper()
	if kinds := s.proxies(); strings.Count(kinds, "istio-proxy") != 2 {
		s.Errorf("the pods have %s, and each should have a sidecar", kinds)
	}
	s.neverOutside("with sidecars")
}

// neverOutside says that what nobody registered is closed to the pods.
func (s *stage) neverOutside(how string) {
	s.Helper()
	if f, err := fetch(s.Context(), s.podIP(shop, "caller"), "http://web.roams:8080/fetch?timeout=5s&url="+url.QueryEscape("http://"+outsideAddrs[2].String()+"/never"), 20*time.Second); err == nil && strings.Contains(f.Body, `"status":200`) {
		s.Errorf("%s, what nobody registered is open: %s", how, f)
	}
}

// proxies are the init containers of the pods that are moved.
func (s *stage) proxies() string {
	s.Helper()
	return s.kubectl("get", "pods", "-n", roams, "-l", "app=web", "-o", "jsonpath={.items[*].spec.initContainers[*].name}")
}

// roll replaces the pods that are moved, one after the other, and returns when the old ones are gone.
func (s *stage) roll() {
	s.Helper()
	before := strings.Fields(s.kubectl("get", "pods", "-n", roams, "-l", "app=web", "-o", "name"))
	s.kubectl("rollout", "restart", "-n", roams, "deployment/web")
	s.kubectl("rollout", "status", "-n", roams, "deployment/web", "--timeout=5m")
	s.kubectl(append([]string{"wait", "-n", roams, "--for=delete", "--timeout=3m"}, before...)...)
}

// underLoad does something while the callers in some namespaces ask what is moved. No request may fail.
func (s *stage) underLoad(what string, callers []string, do func()) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	var loads []*load
	var done sync.WaitGroup
	target := "http://web.roams:8080/"
	outward := target + "fetch?timeout=9s&url=" + url.QueryEscape("http://"+external+"/roams")
	for _, ns := range callers {
		for _, l := range []*load{
			{name: "kept", query: url.Values{"url": {target}, "keep": {"1"}}},
			{name: "new", query: url.Values{"url": {target}}},
			{name: "outward", query: url.Values{"url": {outward}, "has": {`"status":200`}}},
		} {
			l.name = ns + ", " + l.name
			l.query.Set("timeout", "20s")
			app := s.podIP(ns, "caller")
			done.Go(func() { l.run(ctx, app) })
			loads = append(loads, l)
		}
	}
	made := func(than []int) error { // each made ten more requests than that
		for i, l := range loads {
			if n, err := l.made(); n < than[i]+10 {
				return errors.Join(fmt.Errorf("%s: %d requests", l.name, n), err)
			}
		}
		return nil
	}
	counts := func() (out []int) {
		for _, l := range loads {
			n, _ := l.made()
			out = append(out, n)
		}
		return out
	}
	s.becomes("requests are made", time.Minute, func() error { return made(make([]int, len(loads))) })
	began := time.Now()
	do()
	took, after := since(began), counts()
	s.becomes("requests are made when it is done", time.Minute, func() error { return made(after) })
	stop()
	done.Wait()
	requests, failed := 0, 0
	for _, l := range loads {
		n, err := l.made()
		requests, failed = requests+n, failed+len(l.failures)
		if err != nil {
			s.Errorf("%s: %s: the caller broke off: %v", what, l.name, err)
		}
		for _, f := range l.failures[:min(len(l.failures), 5)] {
			s.Errorf("%s: %s: %s", what, l.name, f)
		}
	}
	if s.Logf("%s: %d requests, %d failed (%s)", what, requests, failed, took); failed > 0 {
		text, err := s.audit("query", "--since", "2m", "--from", calm+"/caller", "--limit", "2000", "-o", "csv")
		s.Logf("what is recorded of it (%v):\n%s", err, text)
	}
}

// load is requests of one kind, which an app makes as long as it is told to.
type load struct {
	name     string
	query    url.Values
	mu       sync.Mutex
	requests int
	failures []string
	err      error
}

// made says how many were made, and why there will be no more.
func (l *load) made() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests, l.err
}

func (l *load) run(ctx context.Context, app string) {
	err := l.read(ctx, app)
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.err = err
	}
}

// read has the app make them, and notes what it tells.
func (l *load) read(ctx context.Context, app string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+app+":8080/load?"+l.query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	for lines := json.NewDecoder(resp.Body); ; {
		var told struct {
			Requests int
			Failures []string
		}
		if err := lines.Decode(&told); err != nil {
			return err
		}
		l.mu.Lock()
		l.requests, l.failures = told.Requests, append(l.failures, told.Failures...)
		l.mu.Unlock()
	}
}
