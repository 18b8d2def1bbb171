package e2e

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const meshedApp = "cluster.local/ns/default/sa/app"

// authorizedPod is the meshed pod, with AuthorizationPolicies.
type authorizedPod struct {
	*meshed
	written int
}

// TestAuthorizationInbound: AuthorizationPolicies are kept before the pods that they select, of requests and of connections, by who the client's
// certificate says that it is.
func TestAuthorizationInbound(t *testing.T) {
	needRoot(t)
	t.Parallel()
	a := &authorizedPod{meshed: newMeshed(t)}
	inOrder(t, []part{
		{"nobody says anything", a.nothing},
		{"deny a principal", a.denyPrincipal},
		{"allow a namespace", a.allowNamespace},
		{"requests", a.requests},
		{"ports", a.ports},
		{"dry run", a.dryRun},
		{"other namespaces", a.others},
		{"live", a.live},
		{"the log", a.log},
		{"the trust domain has another name", a.trustDomain},
	})
}

// authorize writes policies in the place of those before, each a namespace, annotations and a spec, and waits until the pod's proxy has them
// of its own namespace and the root namespace.
func (a *authorizedPod) authorize(t *testing.T, policies ...[3]string) {
	t.Helper()
	var all strings.Builder
	a.written++
	name := fmt.Sprintf("edition-%d", a.written)
	for i, p := range policies {
		fmt.Fprintf(&all, "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: %s-%d, namespace: %s, annotations: {%s}}\nspec: %s\n", name, i, p[0], p[1], p[2])
	}
	a.told(t, "authorization.yaml", all.String(), "/"+name+"-") // those of connections come with them, and Envoy's dump has no filters of these
}

// holds asks for pages of the pod, as the app by the mesh and as the bystander in plain text; then for what it echoes at its TCP port, and for
// what it does at the port that nobody names.
func (a *authorizedPod) holds(t *testing.T, path string, app, bystander bool, appEchoes, bystanderEchoes, unnamed bool) {
	t.Helper()
	for _, c := range []struct {
		from *world.Host
		want bool
	}{{a.scene.World.App, app}, {a.bystander, bystander}} {
		turns(t, func() error {
			body, err := a.ask(t.Context(), c.from, path)
			if (err == nil) != c.want || err != nil && !strings.Contains(err.Error(), "403") {
				return fmt.Errorf("%s from %s: %q (%w), want allowed: %v", path, c.from.Name, body, err, c.want)
			}
			return nil
		})
	}
	for _, c := range []struct {
		from *world.Host
		to   netip.Addr
		port uint16
		want bool
	}{
		{a.scene.World.App, meshedService, meshedLive, appEchoes},
		{a.bystander, meshedAddr, meshedLive, bystanderEchoes},
		{a.bystander, meshedAddr, meshedOther, unnamed},
	} {
		turns(t, func() error {
			got, err := hears(t.Context(), c.from, netip.AddrPortFrom(c.to, c.port), "echoed\n", "echoed\n")
			if (err == nil) != c.want {
				return fmt.Errorf("port %d from %s: %q (%w), want allowed: %v", c.port, c.from.Name, got, err, c.want)
			}
			return nil
		})
	}
}

// turns gives the proxy's threads a moment to take over what it has.
func turns(t *testing.T, holds func() error) {
	t.Helper()
	if err := world.Within(t.Context(), time.Minute, holds); err != nil {
		t.Error(err)
	}
}

// enough waits until so many were made: fewer say little. Who has failed makes no more.
func enough(t *testing.T, made *atomic.Int64, want int64) {
	t.Helper()
	if t.Failed() {
		return
	}
	if err := world.Within(t.Context(), 2*time.Minute, func() error {
		if n := made.Load(); n < want && !t.Failed() {
			return fmt.Errorf("%d requests were made, which says little", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func (a *authorizedPod) nothing(t *testing.T) { a.holds(t, "/any", true, true, true, true, true) }

func own(spec string) [3]string {
	return [3]string{"default", "", "{selector: {matchLabels: {app: meshed}}, " + spec + "}"}
}

// denyPrincipal: who is denied is known by the certificate, and who shows none is somebody else.
func (a *authorizedPod) denyPrincipal(t *testing.T) {
	a.authorize(t, own(`action: DENY, rules: [{from: [{source: {principals: [`+meshedApp+`]}}]}]`))
	a.holds(t, "/denied", false, true, false, true, true)
	a.authorize(t, own(`action: DENY, rules: [{from: [{source: {notPrincipals: [`+meshedApp+`]}}]}]`))
	a.holds(t, "/denied", true, false, true, false, false)
}

// allowNamespace: plain text has no namespace, at any port; the agent's own ports are open all the same.
func (a *authorizedPod) allowNamespace(t *testing.T) {
	a.authorize(t, [3]string{"default", "", `{rules: [{from: [{source: {namespaces: [default]}}]}]}`})
	a.holds(t, "/allowed", true, false, true, false, false)
	turns(t, func() error {
		body, err := getFrom(t.Context(), a.bystander, netip.AddrPortFrom(meshedAddr, 15021), "http://"+meshedAddr.String()+":15021/healthz/ready")
		if err != nil {
			err = fmt.Errorf("the probe of the proxy: %q (%w)", body, err)
		}
		return err
	})
	a.authorize(t, [3]string{"default", "", `{rules: [{from: [{source: {namespaces: [else]}}]}]}`})
	a.holds(t, "/allowed", false, false, false, false, false)
}

// requests: methods and paths are of requests alone; what allows by them allows no connection.
func (a *authorizedPod) requests(t *testing.T) {
	allow := own(`rules: [{to: [{operation: {methods: [GET], paths: ["/open/{*}", /admin]}}]}]`)
	a.authorize(t, allow)
	a.holds(t, "/open/door", true, true, false, false, false)
	a.holds(t, "/closed", false, false, false, false, false)
	a.authorize(t, allow, own(`action: DENY, rules: [{to: [{operation: {ports: ["8080"], paths: [/admin]}}]}]`))
	a.holds(t, "/admin", false, false, false, false, false)
	a.holds(t, "/open/door", true, true, false, false, false)
}

// ports: they are the pod's own, and each has its principals.
func (a *authorizedPod) ports(t *testing.T) {
	a.authorize(t,
		own(`rules: [{to: [{operation: {ports: ["8080", "7070"]}}]}]`),
		own(`rules: [{from: [{source: {principals: [`+meshedApp+`]}}], to: [{operation: {ports: ["9002"]}}]}]`),
	)
	a.holds(t, "/any", true, true, true, false, true)
	a.authorize(t, own(`action: DENY, rules: [{from: [{source: {ipBlocks: [`+bystanderAddr.String()+`]}}]}]`))
	a.holds(t, "/any", true, false, true, false, false)
}

func (a *authorizedPod) dryRun(t *testing.T) {
	a.authorize(t, [3]string{"default", `istio.io/dry-run: "true"`, `{selector: {matchLabels: {app: meshed}}, action: DENY, rules: [{}]}`})
	a.holds(t, "/dry", true, true, true, true, true)
}

// others: the root namespace's policies are for all, and a neighbour's for its own pods.
func (a *authorizedPod) others(t *testing.T) {
	a.authorize(t,
		[3]string{"istio-system", "", `{selector: {matchLabels: {app: meshed}}, action: DENY, rules: [{to: [{operation: {ports: ["8080"], paths: [/root]}}]}, {to: [{operation: {ports: ["9002"]}}]}]}`},
		[3]string{"neighbour", "", `{action: DENY, rules: [{}]}`},
		[3]string{"neighbour", "", `{selector: {matchLabels: {app: meshed}}}`},
	)
	a.holds(t, "/any", true, true, false, false, true)
	a.holds(t, "/root", false, false, false, false, true)
}

// live: while policies change, no request that all of them allow is lost, and a connection that was let in stays.
func (a *authorizedPod) live(t *testing.T) {
	a.authorize(t, own(`rules: [{from: [{source: {principals: [`+meshedApp+`]}}]}]`))
	open, err := a.scene.World.App.DialContext(t.Context(), "tcp", netip.AddrPortFrom(meshedService, meshedLive).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	say := func(word string) {
		t.Helper()
		_ = open.SetDeadline(time.Now().Add(attackTimeout))
		got := make([]byte, len(word))
		if _, err := io.WriteString(open, word); err != nil {
			t.Fatalf("the connection that was let in: %v", err)
		}
		if _, err := io.ReadFull(open, got); err != nil || string(got) != word {
			t.Fatalf("the connection that was let in: %q (%v)", got, err)
		}
	}
	say("before")
	ctx, stop := context.WithCancel(t.Context())
	var asked atomic.Int64
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for ctx.Err() == nil {
				if _, err := a.ask(t.Context(), a.scene.World.App, "/live"); err != nil {
					t.Errorf("while policies change: %v", err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range 3 {
		a.authorize(t, own(`rules: [{from: [{source: {namespaces: [default]}}]}]`), own(`action: DENY, rules: [{to: [{operation: {paths: [/else]}}]}]`))
		a.authorize(t, own(`rules: [{from: [{source: {principals: [`+meshedApp+`]}}]}]`))
	}
	enough(t, &asked, 20)
	stop()
	running.Wait()
	say("after")
}

// log: what was denied is in the log, by the pod's own proxy: which policy, who came by its certificate, and of a dry run what would be. So is
// what STRICT closes; what was let in is not.
func (a *authorizedPod) log(t *testing.T) {
	a.authorize(t, own(`action: DENY, rules: [{to: [{operation: {ports: ["8080"], paths: [/logged]}}]}, {from: [{source: {principals: [`+meshedApp+`]}}], to: [{operation: {ports: ["9002"]}}]}]`),
		[3]string{"default", `istio.io/dry-run: "true"`, `{selector: {matchLabels: {app: meshed}}, action: DENY, rules: [{to: [{operation: {paths: [/dry-logged]}}]}, {to: [{operation: {ports: ["7070"]}}]}]}`})
	policy, dry := fmt.Sprintf("edition-%d-0", a.written), fmt.Sprintf("edition-%d-1", a.written)
	a.holds(t, "/logged", false, false, false, true, true)
	a.holds(t, "/dry-logged", true, true, false, true, true)
	a.authenticate(t, true, "{mtls: {mode: STRICT}}")
	if body, err := a.ask(t.Context(), a.bystander, "/plain"); err == nil {
		t.Errorf("plain text where STRICT is: %q", body)
	}
	for _, x := range []struct {
		name string
		is   func(*record.Record) bool
	}{
		{"the app's request", func(r *record.Record) bool {
			return r.Verdict == record.Denied && r.URLPath == "/logged" && r.Claim == "spiffe://"+meshedApp && r.DecidedBy.Name == policy && r.Status == 403
		}},
		{"the bystander's request", func(r *record.Record) bool {
			return r.Verdict == record.Denied && r.URLPath == "/logged" && r.Claim == "" && r.DecidedBy.Name == policy && strings.HasPrefix(r.Source, bystanderAddr.String()+":")
		}},
		{"the app's connection", func(r *record.Record) bool {
			return r.Verdict == record.Denied && r.Class == record.Network && r.Port == meshedLive && r.Host == meshedHost && r.Claim == "spiffe://"+meshedApp && r.DecidedBy.Name == policy
		}},
		{"the dry run's request", func(r *record.Record) bool {
			return r.Verdict == record.Allowed && r.URLPath == "/dry-logged" && r.WouldDeny.Name == dry
		}},
		{"the dry run's connection", func(r *record.Record) bool {
			return r.Verdict == record.Allowed && r.Port == meshedOther && r.WouldDeny.Name == dry
		}},
		{"plain text", func(r *record.Record) bool {
			return r.Verdict == record.Denied && r.Port == meshedHTTP && r.DecidedBy.Kind == "PeerAuthentication" && strings.HasPrefix(r.Source, bystanderAddr.String()+":")
		}},
	} {
		err := world.Within(t.Context(), 2*time.Minute, func() error {
			records, err := a.scene.AuditRecords(t.Context(), "reporter:destination", "--limit", "2000")
			for i := range records {
				r := &records[i]
				if r.Direction != record.Lateral || r.DestinationWorkload.ServiceAccount != "meshed" || r.Workload != (record.Workload{}) {
					return fmt.Errorf("the record is %+v", r)
				}
				if x.is(r) {
					return nil
				}
			}
			last := records[max(len(records)-6, 0):]
			return fmt.Errorf("not among %d records, of which the last are %+v (%w)", len(records), last, err)
		})
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	records, err := a.scene.AuditRecords(t.Context(), "reporter:destination", "verdict:allowed", "--limit", "2000")
	for i := range records {
		if records[i].WouldDeny.IsZero() {
			t.Errorf("what was let in is recorded: %+v (%v)", records[i], err)
			break
		}
	}
}

// trustDomain: as on Istio's page about its migration, a policy that names the trust domain that was counts for who has a certificate of the one that is, while the settings say
// that it is an alias; also where a pattern names it.
func (a *authorizedPod) trustDomain(t *testing.T) {
	a.authenticate(t, false)
	a.authorize(t, own(`rules: [{from: [{source: {principals: [old-td/ns/default/sa/app]}}]}]`))
	a.holds(t, "/old", false, false, false, false, false)
	was, err := os.ReadFile(a.scene.MeshConfig())
	if err != nil {
		t.Fatal(err)
	}
	settings := func(more string) {
		t.Helper()
		if err := a.scene.WriteMeshConfig(string(was) + more); err != nil {
			t.Fatal(err)
		}
	}
	settings("trustDomainAliases: [old-td]\n")
	a.holds(t, "/old", true, false, true, false, false)
	settings("trustDomainAliases: [other-td]\n")
	a.holds(t, "/old", false, false, false, false, false)
	a.authorize(t, own(`rules: [{from: [{source: {principals: ["*er-td/ns/default/sa/app"]}}]}]`))
	a.holds(t, "/pattern", true, false, true, false, false)
}
