package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// asking is one try, of which the test knows what became of it.
type asking struct{ scheme, host, method, path string }

// foretold is what the test reads of `simulate -o json`.
type foretold struct {
	Distinct                  int
	NewlyDenied, NewlyAllowed []struct {
		Host, Protocol string
		Inputs         int
	}
	NotReproducible    int
	NotReproducibleWhy []struct {
		Why      string
		Inputs   int
		Examples []string
	}
}

// TestSimulateForetells simulates random policies for what real proxies recorded, applies them, and asks the same again: what was foretold
// is what comes, and what proxies then record of each input is what was decided for it.
func TestSimulateForetells(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	p := &policed{ctx: ctx, scene: s, app: appOf(s)}
	p.serve(t)
	p.serveSentinels(t)
	if err := s.SetPolicy(ctx, "ALLOW_ANY"); err != nil {
		t.Fatal(err)
	}
	p.without(t)
	if err := world.Within(ctx, time.Minute, func() error { // before that bytes are recorded by the address
		at, err := s.App.Admin(ctx, "/listeners")
		for _, port := range []int{policedTLS, policedTCP} {
			if err == nil && !strings.Contains(string(at), fmt.Sprintf("decide-%d::", port)) {
				err = fmt.Errorf("no listener for port %d", port)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	rounds, methods, paths := 3, []string{http.MethodGet, http.MethodPost, http.MethodPut}, 100
	if os.Getenv("SALLYPORT_LONG") != "" {
		rounds, methods, paths = 10, append(methods, http.MethodDelete, http.MethodPatch, http.MethodOptions, http.MethodHead), 190 // of 200 that are told apart
	}
	all, since := askings(methods, paths), time.Now() // what was tried before is none of it
	before := p.askAll(t, all)
	rng := rand.New(rand.NewPCG(5, uint64(rounds)))
	folder, err := os.MkdirTemp("", "foretold") //nolint:usetesting // t.TempDir is closed to other users
	if err := errors.Join(err, os.Chmod(folder, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	for round := range rounds {
		own, root := foretoldPolicies(rng, round%2 == 0)
		files := filepath.Join(folder, "candidate.yaml")
		if err := os.WriteFile(files, []byte(own+"---\n"+root), 0o644); err != nil {
			t.Fatal(err)
		}
		said := p.foretell(t, files, since, len(all))
		for name, content := range map[string]string{"policy.yaml": own, "root-policy.yaml": root} {
			if err := s.Config.Write(name, content); err != nil {
				t.Fatal(err)
			}
		}
		denied := round%2 == 0
		p.until(t, map[string]bool{"own-g.sentinel.test": !denied, "own-d.sentinel.test": !denied, "root-g.sentinel.test": !denied, "root-d.sentinel.test": !denied})
		after := p.askAll(t, all)
		wantDenied, wantAllowed := map[string]int{}, map[string]int{}
		for i, a := range all {
			switch {
			case before[i] && !after[i]:
				wantDenied[a.scheme+" "+a.host]++
			case !before[i] && after[i]:
				wantAllowed[a.scheme+" "+a.host]++
			}
		}
		gotDenied, gotAllowed := map[string]int{}, map[string]int{}
		for _, c := range said.NewlyDenied {
			gotDenied[c.Protocol+" "+c.Host] += c.Inputs
		}
		for _, c := range said.NewlyAllowed {
			gotAllowed[c.Protocol+" "+c.Host] += c.Inputs
		}
		if fmt.Sprint(gotDenied, gotAllowed) != fmt.Sprint(wantDenied, wantAllowed) {
			t.Errorf("round %d: foretold %v denied, %v allowed; came %v, %v\n%s---\n%s", round, gotDenied, gotAllowed, wantDenied, wantAllowed, own, root)
		}
		t.Logf("round %d: %d inputs, newly denied %v, newly allowed %v", round, said.Distinct, wantDenied, wantAllowed)
		before = after
	}
	p.foretell(t, filepath.Join(s.Config.Path, "policy.yaml"), since, len(all)) // each input is now as the last policies have it
}

// serveSentinels registers hosts that tell when policies are in force: of the own level and of the root namespace's, by the gateway and straight.
func (p *policed) serveSentinels(t *testing.T) {
	t.Helper()
	var objects strings.Builder
	for name, gateway := range map[string]string{"own-g": "istio-system/istio-egressgateway", "own-d": "direct", "root-g": "istio-system/istio-egressgateway", "root-d": "direct"} {
		host := name + ".sentinel.test"
		p.scene.Outside.Set(host, time.Minute, world.OutsideAddrs[0])
		fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %q, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}\n"+
			"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}, {number: %d, name: tls, protocol: TLS}, {number: %d, name: tcp, protocol: TCP}]}\n", host, gateway, host, policedHTTP, policedTLS, policedTCP)
	}
	if err := p.scene.Config.Write("sentinels.yaml", objects.String()); err != nil {
		t.Fatal(err)
	}
}

// askings are requests for each host, method and path, and a connection for each host and protocol.
func askings(methods []string, paths int) (out []asking) {
	for _, name := range []string{"one", "two", "straight", "free"} {
		host := name + ".policed.test"
		for _, method := range methods {
			for i := range paths {
				out = append(out, asking{"http", host, method, fmt.Sprintf("/%c/%c/%d", 'a'+i%4, 'a'+i/4%3, i)})
			}
		}
		out = append(out, asking{"http", host, http.MethodGet, "/"}, asking{scheme: "tls", host: host})
		if name == "one" || name == "two" { // what a sidecar closes of bytes is recorded by the address, which is none of these hosts
			out = append(out, asking{scheme: "tcp", host: host})
		}
	}
	return out
}

// askAll says of each whether it was let through.
func (p *policed) askAll(t *testing.T, all []asking) []bool {
	t.Helper()
	addrs, mu := map[string]caller{}, sync.Mutex{}
	for _, a := range all {
		if _, has := addrs[a.host]; !has {
			addr, err := p.app.resolve(p.ctx, a.host)
			if err != nil {
				t.Fatal(err)
			}
			addrs[a.host] = p.app.at(addr)
		}
	}
	open := make([]bool, len(all))
	var g errgroup.Group
	g.SetLimit(16)
	pace := rate.NewLimiter(500, 1) // a proxy records 1,000 a second, and says of more only how many there were
	for i, a := range all {
		g.Go(func() error {
			if err := pace.Wait(p.ctx); err != nil {
				return err
			}
			c := addrs[a.host]
			let := false
			switch a.scheme {
			case "http":
				status, text, err := c.send(p.ctx, time.Minute, a.method, a.host, policedHTTP, a.path, http.Header{})
				if err != nil || status != http.StatusOK && status != http.StatusForbidden {
					return fmt.Errorf("%v: %d %s %w", a, status, text, err)
				}
				let = status == http.StatusOK
			default:
				_, err := c.try(p.ctx, a.scheme, a.host, map[string]uint16{"tls": policedTLS, "tcp": policedTCP}[a.scheme], "/")
				let = err == nil
			}
			mu.Lock()
			defer mu.Unlock()
			open[i] = let
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return open
}

// foretell simulates objects of a file when the log has all that was asked for, of which the last record has to be as the configuration
// in force has it.
func (p *policed) foretell(t *testing.T, file string, since time.Time, inputs int) (said foretold) {
	t.Helper()
	if err := world.Within(p.ctx, 3*time.Minute, func() error {
		out, err := p.scene.Call(p.ctx, "simulate", "--config-dir", p.scene.Config.Path, "--mesh-config", p.scene.MeshConfig(), "--data", p.scene.DataDir(),
			"--host", "*.policed.test", "--from", "default/app", "--since", since.UTC().Format(time.RFC3339Nano), "-f", file, "-o", "json")
		if err != nil {
			return fmt.Errorf("%s %w", out, err)
		}
		said = foretold{}
		if err := json.Unmarshal(out, &said); err != nil {
			return err
		}
		if said.NotReproducible > 0 || said.Distinct < inputs {
			return fmt.Errorf("%d of %d inputs, %d not reproducible: %+v", said.Distinct, inputs, said.NotReproducible, said.NotReproducibleWhy)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return said
}

// foretoldPolicies are one of the app's namespace and one of the root namespace, whose first rules close their sentinels, or open them.
func foretoldPolicies(rng *rand.Rand, closed bool) (own, root string) {
	does := map[bool]string{true: "Deny", false: "Allow"}[closed]
	head := "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\n"
	own = head + "metadata: {name: list, namespace: default}\nspec:\n  rules:\n" +
		fmt.Sprintf("  - {name: sentinel, hosts: [own-g.sentinel.test, own-d.sentinel.test], action: %s}\n  - {name: others, hosts: [\"*.sentinel.test\"], action: Allow}\n", does) + foretoldRules(rng)
	root = head + "metadata: {name: mesh, namespace: istio-system}\nspec:\n  default: Allow\n  namespaces: {names: [default]}\n  rules:\n" +
		fmt.Sprintf("  - {name: sentinel, hosts: [root-g.sentinel.test, root-d.sentinel.test], action: %s}\n  - {name: others, hosts: [\"*.sentinel.test\"], action: Allow}\n", does) + foretoldRules(rng)
	return own, root
}

func foretoldRules(rng *rand.Rand) string {
	some := func(of ...string) string {
		var out []string
		for len(out) == 0 {
			for _, x := range of {
				if rng.IntN(3) == 0 {
					out = append(out, x)
				}
			}
		}
		return strings.Join(out, ", ")
	}
	var b strings.Builder
	for i := range 2 + rng.IntN(4) {
		fmt.Fprintf(&b, "  - {name: r%d, hosts: [%s], action: %s", i, some("one.policed.test", "two.policed.test", "straight.policed.test", "free.policed.test", `"*.policed.test"`), []string{"Allow", "Deny"}[rng.IntN(2)])
		switch rng.IntN(4) {
		case 0:
			fmt.Fprintf(&b, ", paths: [%s]", some("/a/**", "/b/a/*", "/*/c/**", "/d/b/7"))
		case 1:
			fmt.Fprintf(&b, ", methods: [%s]", some("GET", "POST", "PUT", "DELETE"))
		case 2:
			fmt.Fprintf(&b, ", protocols: [%s]", some("HTTP", "TLS", "TCP"))
		}
		b.WriteString("}\n")
	}
	return b.String()
}
