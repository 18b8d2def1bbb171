package suggest_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// inForce is a mesh that lets through what nobody registered.
const inForce = `
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, ports: [{name: https, port: 443, targetPort: 8443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: egress-1, namespace: istio-system, labels: {istio: egressgateway}}
spec: {serviceAccountName: egress}
status: {podIP: 10.0.0.2, phase: Running}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: registered, namespace: istio-system}
spec:
  hosts: [registered.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: https, protocol: HTTPS}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: own, namespace: shop}
spec:
  hosts: [own.test]
  location: MESH_EXTERNAL
  resolution: DNS
  exportTo: ["."]
  ports: [{number: 443, name: https, protocol: HTTPS}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wild, namespace: istio-system}
spec:
  hosts: ["*.wild.test"]
  location: MESH_EXTERNAL
  resolution: DYNAMIC_DNS
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: https, protocol: HTTPS}]
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: closed, namespace: bank}
spec:
  serviceAccounts: [vault]
  rules:
  - {name: one, hosts: [registered.test], ports: [443], action: Allow}
  - {name: never, hosts: [never.test], action: Deny}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: labelled, namespace: shop}
spec:
  selector: {matchLabels: {app: strict}}
  rules:
  - {name: one, hosts: [registered.test], paths: [/ok/**], action: Allow}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: watched, namespace: media}
spec:
  mode: Observe
  rules:
  - {name: one, hosts: [registered.test], action: Allow}
`

func read(t testing.TB, texts ...string) (out []config.Object) {
	t.Helper()
	for _, text := range texts {
		r := decode.File("test.yaml", []byte(text))
		if len(r.Findings) > 0 {
			t.Fatal(r.Findings, "\n", text)
		}
		out = append(out, r.Objects...)
	}
	return out
}

func configOf(t testing.TB, allowAny bool, texts ...string) suggest.Config {
	settings := mesh.Default()
	settings.OutboundAllowAny = allowAny
	c := suggest.Config{Registry: registry.New(&settings), Decide: policy.Decide}
	for _, o := range read(t, texts...) {
		c.Objects = append(c.Objects, config.Change{Key: o.Key, Object: &o})
	}
	c.Snapshot, _ = c.Registry.Apply(c.Objects)
	return c
}

func options() suggest.Options {
	return suggest.Options{Now: now, Policies: true, Paths: true, Siblings: 5, Limit: 1000}
}

// flow is one with evidence of a day.
func flow(ns, account, labels, host string, port uint32, protocol string, requests ...string) *seen.Flow {
	f := &seen.Flow{Namespace: ns, Account: account, Labels: labels, Host: host, Port: port, Protocol: protocol, Verdict: record.Allowed, Way: record.PathPassthrough,
		Evidence: seen.Evidence{First: now.AddDate(0, 0, -2), Last: now.AddDate(0, 0, -1), Days: []int64{20603, 20604}, Replicas: []string{account + "-1"}, Records: 7, BytesSent: 2048, BytesReceived: 100}}
	for _, r := range requests {
		method, path, _ := strings.Cut(r, " ")
		if f.Requests == nil {
			f.Requests = map[string]*seen.Paths{}
		}
		if f.Requests[method] == nil {
			f.Requests[method] = &seen.Paths{}
		}
		f.Requests[method].Add(path)
	}
	return f
}

func logOf(flows ...*seen.Flow) *seen.Log {
	return &seen.Log{Since: now.AddDate(0, 0, -30), Oldest: now.AddDate(0, 0, -40), Flows: flows}
}

func yamlOf(t testing.TB, r *suggest.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// applied gives a configuration with what was suggested.
func applied(c suggest.Config, r *suggest.Result) *registry.Snapshot {
	reg := registry.New(c.Snapshot.Mesh)
	s, _ := reg.Apply(c.Objects)
	for _, x := range r.Changes {
		s, _ = reg.Apply([]config.Change{{Key: x.Key(), Object: x.After}})
	}
	return s
}

// sound holds that what is written is what was suggested, that admission and lint take it, and that the diff can be written.
func sound(t testing.TB, c suggest.Config, r *suggest.Result) {
	t.Helper()
	text := yamlOf(t, r)
	written := decode.File("suggested.yaml", []byte(text))
	if len(written.Findings) > 0 {
		t.Fatalf("%v\n%s", written.Findings, text)
	}
	var all []config.Object
	have := map[config.Key]bool{}
	for _, o := range written.Objects {
		if f := admission.Validate(o); admission.Refused(f) {
			t.Fatalf("%v\n%s", f, text)
		}
		i := slices.IndexFunc(r.Changes, func(x suggest.Change) bool { return x.Key() == o.Key })
		if i < 0 || r.Changes[i].After == nil || r.Changes[i].After.Revision != o.Revision {
			t.Fatalf("%s is written as another object\n%s", o.Key, text)
		}
		have[o.Key] = true
		all = append(all, o)
	}
	for _, x := range r.Changes {
		if x.After != nil && !have[x.Key()] {
			t.Fatalf("%s is not written\n%s", x.Key(), text)
		}
		have[x.Key()] = true
	}
	for _, x := range c.Objects {
		if !have[x.Key] {
			all = append(all, *x.Object)
		}
	}
	if f := admission.CheckAt(all, *c.Snapshot.Mesh, now); admission.Refused(f) {
		t.Fatalf("%v\n%s", f, text)
	}
	if err := r.WriteDiff(&bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Document(); err != nil {
		t.Fatal(err)
	}
}

// tried is something that a workload did.
type tried struct {
	who policy.Workload
	to  policy.Destination
	f   *seen.Flow
}

// random makes a log of what a mesh might do, hostile things among them, with what each record was about.
func random(r *rand.Rand, c suggest.Config) (*seen.Log, []tried) {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	reg := registry.New(c.Snapshot.Mesh)
	s, _ := reg.Apply(c.Objects)
	flows := map[string]*seen.Flow{}
	var all []tried
	siblings := r.IntN(3) == 0
	for range 1 + r.IntN(100) {
		ns := pick("shop", "shop", "bank", "media", "istio-system")
		account := map[string]string{"shop": pick("cart", "front"), "bank": pick("vault", "teller"), "media": "player", "istio-system": "egress"}[ns]
		labels := pick("", "app=cart", "app=strict", "app=x,tier=y")
		host := pick("registered.test", "own.test", "a.wild.test", "never.test", "new.test", "other.example.com", "api.example.com", fmt.Sprintf("n%d.many.example", r.IntN(8)),
			fmt.Sprintf("t%d.github.io", r.IntN(7)), fmt.Sprintf("b%d.s3.amazonaws.com", r.IntN(7)), "203.0.113.9", "2001:db8::9", "10.1.2.3", "169.254.169.254", "metadata.google.internal",
			"web", "x\ny: z", "a.test\u2028kind: Secret", "*.evil.test", "0x7f.1", "1e3", "no", "y.test", strings.Repeat("a", 300), "-", "")
		protocol, port := "http", []uint32{80, 8080, 3306}[r.IntN(3)]
		switch r.IntN(3) {
		case 0:
			protocol, port = "tls", []uint32{443, 8443, 80}[r.IntN(3)]
		case 1:
			if strings.ContainsAny(host, ":") || strings.HasPrefix(host, "203") {
				protocol, port = "tcp", []uint32{5432, 443, 3306}[r.IntN(3)]
			}
		}
		if siblings && r.IntN(3) == 0 {
			ns, account, host, protocol, port = "shop", "cart", fmt.Sprintf("n%d.many.example", r.IntN(8)), "tls", 443
		}
		who := policy.Workload{Namespace: ns, Account: account, Labels: (&seen.Flow{Labels: labels}).LabelMap()}
		to := policy.Destination{Scheme: policy.Scheme(protocol), Host: host, Port: port, At: now}
		f := flow(ns, account, labels, host, port, protocol)
		if protocol == "http" {
			to.Method = pick("GET", "GET", "POST", "DELETE")
			to.Path = pick("/", "/ok/x", fmt.Sprintf("/v1/users/%d", r.IntN(100)), fmt.Sprintf("/f/%c%c%c", 'a'+r.IntN(26), 'a'+r.IntN(26), 'a'+r.IntN(26)), "/a//b", "/a/../b", "/%zz", "/it's {bad}: #", "/x*y")
		}
		if r.IntN(20) == 0 {
			f.Destinations = []string{"10.9.9.9"}
		}
		v := policy.Decide(s, who, to)
		if f.Verdict = record.Allowed; !v.Allowed {
			f.Verdict = record.Denied
		}
		f.Way = v.Path
		key := fmt.Sprint(f.Namespace, f.Account, f.Labels, f.Host, f.Port, f.Protocol, f.Verdict, f.Way)
		if flows[key] == nil {
			flows[key] = f
		}
		f = flows[key]
		if protocol == "http" {
			if f.Requests == nil {
				f.Requests = map[string]*seen.Paths{}
			}
			if f.Requests[to.Method] == nil {
				f.Requests[to.Method] = &seen.Paths{}
			}
			f.Requests[to.Method].Add(to.Path)
		}
		all = append(all, tried{who, to, f})
	}
	log := logOf()
	for _, f := range flows {
		log.Flows = append(log.Flows, f)
	}
	slices.SortFunc(log.Flows, (*seen.Flow).Compare)
	return log, all
}

// TestWhatWasAllowedStays: with what is suggested applied, everything that was seen allowed is allowed, whatever was seen; what is written is sound,
// and always alike.
const seeds = 80

func TestWhatWasAllowedStays(t *testing.T) {
	made := map[string]int{}
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := configOf(t, r.IntN(4) > 0, inForce)
		log, all := random(r, c)
		o := options()
		o.Denied, o.ByApp, o.Paths = r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(4) > 0
		if r.IntN(4) == 0 {
			o.Unused = log
		}
		got := suggest.Suggest(c, log, o)
		sound(t, c, got)
		s := applied(c, got)
		for _, x := range all {
			if x.f.Verdict != record.Allowed {
				continue
			}
			if v := policy.Decide(s, x.who, x.to); !v.Allowed {
				t.Fatalf("seed %d: %+v to %+v was allowed, and is denied: %s\n%s", seed, x.who, x.to, v.Reason, yamlOf(t, got))
			}
		}
		text := yamlOf(t, got)
		for line := range strings.Lines(text) {
			for _, bad := range []string{"kind: Secret", "y: z", "169.254.169.254", "metadata.google.internal", "*.github.io", "*.amazonaws.com", "*.s3.amazonaws.com"} {
				if strings.Contains(line, bad) && !strings.HasPrefix(line, "#") {
					t.Fatalf("seed %d: %q is in it: %s", seed, bad, text)
				}
			}
		}
		slices.Reverse(log.Flows)
		if again := yamlOf(t, suggest.Suggest(c, log, o)); again != text {
			t.Fatalf("seed %d: in another order it is\n%s\nnot\n%s", seed, again, text)
		}
		for _, x := range got.Changes {
			made[string(x.Key().Kind)+" "+x.Action()]++
		}
		for _, what := range []string{"mode: Observe", "DYNAMIC_DNS"} {
			if strings.Contains(text, what) {
				made[what]++
			}
		}
	}
	for _, kind := range []string{"ServiceEntry create", "ServiceEntry change", "EgressPolicy create", "EgressPolicy change", "mode: Observe", "DYNAMIC_DNS"} {
		if made[kind] == 0 {
			t.Errorf("nothing of the sort was made: %s (%v)", kind, made)
		}
	}
}
