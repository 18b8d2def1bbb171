package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const base = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: one, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [one.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: range, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [range.test], addresses: [192.0.2.0/24], location: MESH_EXTERNAL, resolution: NONE, ports: [{number: 6000, name: tcp, protocol: TCP}]}
`

const two = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: two, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [two.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
`

// policy is one of namespace shop.
func policy(spec string) string {
	return "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: shop}\nspec: " + spec + "\n"
}

var now = time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)

// world is a configuration, with the objects' revisions.
type world struct {
	snapshot  *registry.Snapshot
	revisions map[config.Key]string
}

func read(t testing.TB, texts ...string) world {
	t.Helper()
	cfg := mesh.Default()
	cfg.OutboundAllowAny = false
	w := world{revisions: map[config.Key]string{}}
	var changes []config.Change
	for _, text := range texts {
		result := decode.File("objects.yaml", []byte(text))
		for _, f := range result.Findings {
			t.Fatalf("%s\n%s", f, text)
		}
		for i := range result.Objects {
			o := &result.Objects[i]
			changes = append(changes, config.Change{Key: o.Key, Object: o})
			w.revisions[o.Key] = o.Revision
		}
	}
	w.snapshot, _ = registry.New(&cfg).Apply(changes)
	return w
}

// sides are the world as it is, and as it would be.
func (w world) sides(would world) *simulate.Sides {
	return &simulate.Sides{Base: w.snapshot, Candidate: would.snapshot, Now: now, Revision: func(k config.Key) string { return w.revisions[k] }}
}

// input is of workload shop/cart; change makes another one of it.
func input(change func(*inputs.Input)) inputs.Input {
	x := inputs.Input{
		Question: inputs.Question{Namespace: "shop", ServiceAccount: "cart", Workload: "cart", Reporter: record.ReporterSidecar, Direction: record.Outbound,
			Class: record.HTTP, Protocol: "http", Host: "one.test", Port: 80, Method: "GET", URLPath: "/", Dialled: "203.0.113.9:80"},
		Outcome: inputs.Outcome{Verdict: record.Allowed, Path: record.PathDirect}, Count: 3, First: now.Add(-time.Hour), Last: now.Add(-time.Minute), Days: 1, Replicas: 1,
	}
	if change != nil {
		change(&x)
	}
	return x
}

func simulated(t *testing.T, before, after world, list ...inputs.Input) *simulate.Report {
	t.Helper()
	run := simulate.New(before.sides(after))
	for i := range list {
		if err := run.Add(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	return run.Finish()
}

// said writes a report down, a line each: what changes, and what is not reproducible.
func said(r *simulate.Report) (out []string) {
	for name, list := range map[string][]simulate.Change{"deny": r.NewlyDenied, "allow": r.NewlyAllowed, "would": r.WouldDeny} {
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s %s %s:%d %s records=%d by %s", name, c.Workload, c.Host, c.Port, c.Protocol, c.Records, strings.TrimSpace(c.After.DecidedBy.Name+" "+c.After.DecidedBy.Rule)))
		}
	}
	for _, w := range r.Why {
		out = append(out, fmt.Sprintf("why %s records=%d inputs=%d", w.Why, w.Records, w.Inputs))
	}
	slices.Sort(out)
	return out
}

// TestManyQuestions: what many questions are asked, of snapshots that find hosts quickly, is what each alone is asked.
func TestManyQuestions(t *testing.T) {
	before := read(t, base)
	for what, after := range map[string]world{"another configuration": read(t, base, two, policy("{rules: [{hosts: [two.test], action: Allow}]}")), "the same": before} {
		var list []inputs.Input
		var each []string
		for i := range 900 {
			x := input(func(x *inputs.Input) {
				x.URLPath, x.Host = fmt.Sprintf("/%d", i), []string{"one.test", "two.test", "three.test"}[i%3]
				if i%3 > 0 {
					x.Verdict, x.Path, x.DecidedBy = record.Denied, record.PathBlackhole, record.Object{Kind: "MeshConfig", Namespace: "istio-system", Name: "mesh"}
				}
			})
			list = append(list, x)
			if i < 3 {
				x.Count *= 300
				each = append(each, said(simulated(t, before, after, x))...)
			}
		}
		slices.Sort(each)
		if got := said(simulated(t, before, after, list...)); !slices.Equal(got, each) {
			t.Errorf("%s: together\n%s\nalone\n%s", what, strings.Join(got, "\n"), strings.Join(each, "\n"))
		}
	}
}

func TestSimulate(t *testing.T) {
	tls := func(host string, verdict record.Verdict) inputs.Input {
		return input(func(x *inputs.Input) {
			x.Class, x.Protocol, x.Host, x.Port, x.Method, x.URLPath, x.Dialled, x.Verdict = record.Network, "tls", host, 443, "", "", "", verdict
			if verdict == record.Denied {
				x.Path, x.DecidedBy = record.PathBlackhole, record.Object{Kind: "MeshConfig", Namespace: "istio-system", Name: "mesh"}
			}
		})
	}
	name := func(host, path string) inputs.Input {
		return input(func(x *inputs.Input) {
			x.Class, x.Protocol, x.Host, x.Port, x.Method, x.URLPath, x.Dialled, x.Verdict, x.Path = record.DNS, "dns", host, 0, "", "", "", record.Denied, path
		})
	}
	bytes := input(func(x *inputs.Input) {
		x.Class, x.Protocol, x.Host, x.Port, x.Method, x.URLPath, x.Dialled = record.Network, "tcp", "range.test", 6000, "", "", "192.0.2.9:6000"
	})
	const allowOne = "{rules: [{name: one, hosts: [one.test], action: Allow}]}"
	for _, tt := range []struct {
		name          string
		before, after []string
		list          []inputs.Input
		want          []string
	}{
		{"nothing changes", nil, nil, []inputs.Input{input(nil), tls("one.test", record.Allowed), tls("two.test", record.Denied), bytes}, nil},
		{"a policy for another host", nil, []string{policy("{rules: [{hosts: [two.test], action: Allow}]}")}, []inputs.Input{input(nil), tls("one.test", record.Allowed)},
			[]string{"deny shop/cart one.test:443 tls records=3 by list default", "deny shop/cart one.test:80 http records=3 by list default"}},
		{"paths", nil, []string{policy("{default: Allow, rules: [{name: admin, hosts: [one.test], paths: [/admin/**], action: Deny}]}")},
			[]inputs.Input{input(func(x *inputs.Input) { x.URLPath = "/admin/x" }), input(nil)}, []string{"deny shop/cart one.test:80 http records=3 by list admin"}},
		{"a host is registered", nil, []string{two}, []inputs.Input{tls("two.test", record.Denied), name("two.test", record.PathBlackhole)},
			[]string{"allow shop/cart two.test:0 dns records=3 by two hosts: two.test", "allow shop/cart two.test:443 tls records=3 by two hosts: two.test"}},
		{"observed", nil, []string{policy("{mode: Observe, rules: [{hosts: [two.test], action: Allow}]}")}, []inputs.Input{input(nil)}, []string{"would shop/cart one.test:80 http records=3 by list default"}},
		{"bytes by their address", nil, []string{policy("{rules: [{name: all, hosts: [range.test], ports: [6001], action: Allow}]}")}, []inputs.Input{bytes},
			[]string{"deny shop/cart range.test:6000 tcp records=3 by list default"}},
		{"a header is asked for", nil, []string{policy("{rules: [{hosts: [one.test], headers: [{name: x-a, value: b}], action: Allow}]}")}, []inputs.Input{input(nil), tls("one.test", record.Allowed)},
			[]string{"deny shop/cart one.test:443 tls records=3 by list default", "why it depends on the header x-a, which the log does not hold records=3 inputs=1"}},
		{"a header is asked for elsewhere", nil, []string{policy("{default: Allow, rules: [{hosts: [one.test], methods: [POST], headers: [{name: x-a, value: b}], action: Deny}]}")}, []inputs.Input{input(nil)}, nil},
		{"paths that were not kept", nil, []string{policy("{default: Allow, rules: [{hosts: [one.test], paths: [/x], action: Deny}]}")},
			[]inputs.Input{input(func(x *inputs.Input) { x.Beyond = inputs.BeyondPaths }), input(func(x *inputs.Input) { x.Cut, x.URLPath = "urlPath", "/y…" })},
			[]string{"why it depends on the path, which the log does not hold records=6 inputs=2"}},
		{"paths that were not kept, nor asked for", nil, []string{policy("{default: Deny}")}, []inputs.Input{input(func(x *inputs.Input) { x.Beyond, x.URLPath = inputs.BeyondPaths, "" })},
			[]string{"deny shop/cart one.test:80 http records=3 by list default"}},
		{"labels that the log lacks", nil, []string{policy("{selector: {matchLabels: {app: cart}}, default: Deny}")},
			[]inputs.Input{input(nil), input(func(x *inputs.Input) { x.Labels = "app=cart,team=a" }), input(func(x *inputs.Input) { x.Labels = "app=till" })},
			[]string{"deny shop/cart one.test:80 http records=3 by list default", "why the log does not hold the workload's labels, and something selects by labels records=3 inputs=1"}},
		{"what else is not known", nil, nil, []inputs.Input{
			input(func(x *inputs.Input) { x.Namespace = "" }), input(func(x *inputs.Input) { x.Claim = "spiffe://x/ns/a/sa/b" }), input(func(x *inputs.Input) { x.Cut = "host" }),
			input(func(x *inputs.Input) { x.Beyond = inputs.BeyondHosts }), input(func(x *inputs.Input) { x.Method = "" }), input(func(x *inputs.Input) { x.Port = 8080 }),
			name("one.test", record.PathDirect), input(func(x *inputs.Input) { x.Direction = record.Inbound }), input(func(x *inputs.Input) { x.Protocol = "x" }),
		}, []string{
			"why a gateway reported it that is not believed about others records=3 inputs=1", "why a text of it was too long, and is not whole records=3 inputs=1",
			"why an answer of DNS was refused for its address, or there were too many questions: no object decides that records=3 inputs=1",
			"why it came into the mesh, of which no policy speaks records=3 inputs=1", "why its host was not kept: one account asked for too many on a day records=3 inputs=1",
			"why nobody knows who asked records=3 inputs=1", "why the log does not hold the request's method records=3 inputs=1", "why the log does not say what was spoken records=3 inputs=1",
			"why the request named another port than it was sent to records=3 inputs=1",
		}},
		{"no object decided", nil, nil, []inputs.Input{input(func(x *inputs.Input) { x.Verdict, x.Reason = record.Denied, "its memory is full" })},
			[]string{"why no object decided it: its memory is full records=3 inputs=1"}},
		{"an older version decided", []string{policy(allowOne)}, []string{policy("{default: Deny}")}, []inputs.Input{
			input(nil),
			input(func(x *inputs.Input) {
				x.Verdict, x.DecidedBy = record.Denied, record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "list", Rule: "default", Revision: strings.Repeat("0", 32)}
			}),
		}, []string{"deny shop/cart one.test:80 http records=3 by list default", "why EgressPolicy shop/list decided it, and says another thing now records=3 inputs=0"}},
		{"what decided is gone", nil, nil, []inputs.Input{input(func(x *inputs.Input) {
			x.Verdict, x.DecidedBy = record.Denied, record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "gone", Rule: "default", Revision: strings.Repeat("0", 32)}
		})}, []string{"why EgressPolicy shop/gone decided it, and is no more records=3 inputs=1"}},
		{"a rule that has ended since", []string{policy("{rules: [{hosts: [one.test], action: Allow, expires: \"2027-05-01T11:59:30Z\"}]}")},
			[]string{policy("{rules: [{hosts: [one.test], action: Allow, expires: \"2027-06-01T00:00:00Z\"}]}")}, []inputs.Input{input(nil)}, []string{"allow shop/cart one.test:80 http records=3 by list rules[0]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := simulated(t, read(t, append([]string{base}, tt.before...)...), read(t, append([]string{base}, tt.after...)...), tt.list...)
			slices.Sort(tt.want)
			if got := said(r); !slices.Equal(got, tt.want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(tt.want, "\n     "))
			}
		})
	}
}

// TestCounts: inputs, records and gaps are counted once, whatever they are.
func TestCounts(t *testing.T) {
	before, after := read(t, base), read(t, base, policy("{default: Deny}"))
	var list []inputs.Input
	for i := range 1000 {
		for day := range 2 {
			list = append(list, input(func(x *inputs.Input) {
				x.URLPath, x.Count = fmt.Sprintf("/%04d", i), uint64(i+1)
				x.AllowedBy.Revision = strings.Repeat("1", day)
				x.First = x.First.Add(-24 * time.Hour * time.Duration(day))
			}))
		}
	}
	list = append(list, input(func(x *inputs.Input) { x.Class, x.Lost, x.Namespace = record.Gap, 7, "other" }))
	r := simulated(t, before, after, list...)
	if r.Distinct != 1000 || r.Records != 1000*1001 || r.Gaps != 7 || r.Inputs.NewlyDenied != 1000 || r.NotReproducible != 0 || len(r.NewlyDenied) != 1 {
		t.Fatalf("%+v", r)
	}
	c := r.NewlyDenied[0]
	if c.Inputs != 1000 || c.Records != 1000*1001 || !c.First.Equal(now.Add(-25*time.Hour)) || len(c.Examples) != 3 || c.Examples[0].Path != "/0999" || c.Examples[0].Records != 2000 {
		t.Errorf("%+v", c)
	}
	if c.Before.Verdict != "allow" || c.After.Verdict != "deny" || c.After.DecidedBy.Kind != "EgressPolicy" {
		t.Errorf("%+v", c)
	}
}

// TestHostileChanges: a report has room for so many changes, and counts the others.
func TestHostileChanges(t *testing.T) {
	before, after := read(t, base), read(t, base, two)
	after.snapshot, before.snapshot = before.snapshot, read(t, base, strings.Replace(two, "two.test", "\"*.two.test\"", 1)).snapshot
	var list []inputs.Input
	const n = 30_000
	for i := range n {
		list = append(list, input(func(x *inputs.Input) {
			x.Class, x.Protocol, x.Host, x.Port, x.Method, x.URLPath, x.Dialled = record.Network, "tls", fmt.Sprintf("h%05d.two.test", i), 443, "", "", ""
		}))
	}
	r := simulated(t, before, after, list...)
	if r.Inputs.NewlyDenied != n || len(r.NewlyDenied) != 10_000 || r.NotListed != n-10_000 {
		t.Errorf("%+v, %d lines, %d not listed", r.Inputs, len(r.NewlyDenied), r.NotListed)
	}
}
