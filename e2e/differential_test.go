package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestExplainAgreesWithEnvoy tries every destination for real and compares three answers: what `explain` says, what
// the app got and who the server saw, and what the audit log holds.
func TestExplainAgreesWithEnvoy(t *testing.T) {
	needRoot(t)
	t.Parallel()
	for _, setting := range settings {
		t.Run(setting.name, func(t *testing.T) {
			t.Parallel() // each in a scene of its own
			ctx, s := setScene(t, story.InNamespaces)
			d := newDifferential(t, s)
			d.ctx = ctx
			d.settle(t, setting.policy, setting.sidecar)
			d.everything(t)
			d.foreignNames(t, setting.policy == "ALLOW_ANY" && !setting.sidecar, setting.sidecar)
		})
	}
}

// TestExplainAgreesWithEnvoyOfPolicies is that under random EgressPolicies.
func TestExplainAgreesWithEnvoyOfPolicies(t *testing.T) {
	needRoot(t)
	t.Parallel()
	for seed := range policySeeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel() // each in a scene of its own
			ctx, s := setScene(t, story.InNamespaces)
			d := newDifferential(t, s)
			d.ctx = ctx
			d.settle(t, "ALLOW_ANY", false)
			d.policedBy(t, seed)
			d.everything(t)
		})
	}
}

// everything tries all destinations by all schemes, and compares.
func (d *differential) everything(t *testing.T) {
	t.Helper()
	cases := []*trial{
		parse("tcp://exact.test:3306"),                                                                                                    // where the server speaks first
		parse("http://exact.test.:80"), parse("http://a.wild.test.:80"), parse("http://direct.test.:80"), parse("http://nobody.test.:80"), // with the root's dot
	}
	for _, destination := range destinations {
		for _, scheme := range []string{"http", "https", "tls", "tcp"} {
			cases = append(cases, parse(scheme+"://"+destination))
		}
	}
	var explained errgroup.Group
	explained.Go(func() error { return d.explain(cases) })
	for _, c := range cases { // one after the other: their records are told apart by their time
		c.began = time.Now()
		_, err := d.app.resolve(d.ctx, c.host)
		c.refused = refused(err)
		c.peer, c.err = d.app.try(d.ctx, c.scheme, c.written, c.port, "/?a=secret")
		c.end = time.Now()
	}
	if err := explained.Wait(); err != nil {
		t.Fatal(err)
	}
	d.compare(t, cases)
}

// foreignNames shows TLS names that nobody registered at addresses that somebody did: `explain` has no words for that.
// narrowed is that a Sidecar object hides the range's port.
func (d *differential) foreignNames(t *testing.T, open, narrowed bool) {
	t.Helper()
	passes, ranged := map[bool]netip.Addr{true: world.AppAddr}[open], map[bool]netip.Addr{false: world.AppAddr}[narrowed]
	made, err := d.app.resolve(d.ctx, "exact.test")
	if err != nil {
		t.Fatal(err)
	}
	for at, from := range map[netip.AddrPort]netip.Addr{
		netip.AddrPortFrom(clusterAddr, 443):                       world.AppAddr, // a service of the mesh: names mean nothing
		netip.AddrPortFrom(netip.MustParseAddr("192.0.2.10"), 443): world.AppAddr, // straight from the sidecar
		netip.AddrPortFrom(rangedAddr, 8443):                       ranged,        // in a range
		netip.AddrPortFrom(ownedAddr, 443):                         passes,        // behind a gateway, which would refuse it
		netip.AddrPortFrom(made, 443):                              {},            // made up: nothing is there
		netip.AddrPortFrom(otherAddr, 443):                         passes,
	} {
		began := time.Now()
		peer, err := d.app.tryNamed(d.ctx, at, "foreign.test")
		if peer != from {
			t.Errorf("foreign.test at %s: the server saw %q, want %q (%v)", at, peer, from, err)
		}
		if errors.Is(err, context.DeadlineExceeded) || time.Since(began) >= d.app.patience {
			t.Errorf("foreign.test at %s: no end (%v)", at, err)
		}
	}
}

// trial is one try and everything that is said about it.
type trial struct {
	url        string
	scheme     string
	host       string
	written    string // the host as the app writes it
	port       uint16
	said       explanation
	peer       netip.Addr // of the server, where one answered
	err        error
	refused    bool // by the pod's DNS
	began, end time.Time
}

// explanation is what `explain -o json` prints.
type explanation struct {
	Verdict   string
	Path      string
	Cluster   string
	DecidedBy struct{ Kind, Namespace, Name, Rule string }
	Reason    string
}

type differential struct {
	ctx   context.Context
	scene *story.Scene
	app   caller
}

func newDifferential(t *testing.T, s *story.Scene) *differential {
	t.Helper()
	for _, addr := range []netip.Addr{otherAddr, ownedAddr, rangedAddr, clusterAddr, netip.MustParseAddr("203.0.113.113"), netip.MustParseAddr("203.0.113.121"), podAddr, storeAddr, loneAddr} {
		if _, err := s.World.Outside.Run(t.Context(), 0, "ip", "addr", "add", addr.String()+"/24", "dev", "eth0"); err != nil {
			t.Fatal(err)
		}
		polyglot{s.Outside.CA}.serve(t, s.World.Outside, addr, []uint16{80, 443, 993, 5432, 7070, 8080, 8443, 9999}, 3306)
	}
	// What leads nowhere is refused at once, every time.
	if _, err := s.World.Router.Run(t.Context(), 0, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit"); err != nil {
		t.Fatal(err)
	}
	for _, destination := range destinations {
		if host, _, _ := net.SplitHostPort(destination); net.ParseIP(host) == nil {
			s.Outside.Set(host, time.Minute, otherAddr)
		}
	}
	s.Outside.Set("owner.test", time.Minute, ownedAddr)
	s.Outside.Set("checkout.store", time.Minute, storeAddr)
	s.Outside.Set("checkout.store.svc.cluster.local", time.Minute, storeAddr)
	s.Outside.Set("api.default.svc.cluster.local", time.Minute, clusterAddr)
	s.Outside.Set("also.default.svc.cluster.local", time.Minute, clusterAddr)
	for _, name := range []string{"pods.", "pods-0.pods."} {
		s.Outside.Set(name+"default.svc.cluster.local", time.Minute, podAddr)
	}
	s.Outside.Set("lone-0.lone.default.svc.cluster.local", time.Minute, loneAddr)
	if err := s.RecordMesh(); err != nil {
		t.Fatal(err)
	}
	d := &differential{scene: s, app: appOf(s)}
	d.app.patience = time.Minute // whatever is tried has an end
	if err := s.Config.Write("registered.yaml", read(t, filepath.Join("testdata", "differential.yaml"))); err != nil {
		t.Fatal(err)
	}
	return d
}

// settle writes the settings and waits until the app's traffic shows them.
func (d *differential) settle(t *testing.T, policy string, sidecar bool) {
	t.Helper()
	if err := d.scene.SetPolicy(d.ctx, policy); err != nil {
		t.Fatal(err)
	}
	if sidecar {
		if err := d.scene.Config.Write("sidecar.yaml", narrow); err != nil {
			t.Fatal(err)
		}
	}
	unregistered := map[string]netip.Addr{"ALLOW_ANY": world.AppAddr}[policy]
	hidden := world.GatewayAddr
	if sidecar {
		unregistered, hidden = netip.Addr{}, netip.Addr{}
	}
	for url, from := range map[string]netip.Addr{ // who the server must see; nobody: it is closed
		"http://exact.test:80": world.GatewayAddr, "tcp://exact.test:5432": world.GatewayAddr, "http://odd.test:8080": world.GatewayAddr,
		"https://a.wild.test:443": world.GatewayAddr, "http://direct.test:80": world.AppAddr, "https://direct.test:443": world.AppAddr,
		"http://hidden.test:80": hidden, "http://nobody.test:80": unregistered,
	} {
		err := world.Within(d.ctx, 2*time.Minute, func() error {
			c := parse(url)
			peer, err := d.app.try(d.ctx, c.scheme, c.host, c.port, "/settle")
			if peer != from {
				return fmt.Errorf("%s: the server saw %q, want %q (%w)", url, peer, from, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// explain asks what would happen.
func (d *differential) explain(cases []*trial) error {
	for _, c := range cases {
		out, _ := d.scene.Call(d.ctx, "explain", "--config-dir", d.scene.Config.Path, "--mesh-config", d.scene.MeshConfig(),
			"--from", "default/app-1?app=app", "-o", "json", c.url)
		if err := json.Unmarshal(out, &c.said); err != nil {
			return fmt.Errorf("explain %s: %s: %w", c.url, out, err)
		}
	}
	return nil
}

// parse splits scheme://host:port.
func parse(url string) *trial {
	scheme, destination, _ := strings.Cut(url, "://")
	host, port, _ := net.SplitHostPort(destination)
	n, _ := strconv.ParseUint(port, 10, 16)
	return &trial{url: url, scheme: scheme, host: strings.TrimSuffix(host, "."), written: host, port: uint16(n)}
}

// compare waits until the log has a record of every try, and holds it and the try against what was said.
func (d *differential) compare(t *testing.T, tried []*trial) {
	t.Helper()
	var all [][]record.Record
	err := world.Within(d.ctx, 3*time.Minute, func() error {
		records, err := d.scene.AuditRecords(d.ctx)
		if err != nil {
			return err
		}
		all = all[:0]
		for _, c := range tried {
			all = append(all, c.records(records))
			if len(all[len(all)-1]) == 0 {
				err = errors.Join(err, fmt.Errorf("%s: the log holds no record", c.url))
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for i, c := range tried {
		if i >= len(all) {
			break
		}
		if problems := c.problems(all[i]); len(problems) > 0 {
			t.Errorf("%s: %s\n\texplain: %s by %s, %s (%v)\n\tapp: %s\n\tlog: %s", c.url, strings.Join(problems, "; "),
				c.said.Verdict, c.said.Path, c.said.Reason, c.said.DecidedBy, c.got(), lines(all[i]))
		}
	}
}

// records are those of what the app did while the try lasted. Tries come one after the other.
func (c *trial) records(all []record.Record) (own []record.Record) {
	for _, r := range all {
		if r.Class != record.DNS && !r.Time.Before(c.began) && !r.Time.After(c.end) {
			own = append(own, r)
		}
	}
	return own
}

func (c *trial) got() string {
	if c.err != nil {
		return c.err.Error()
	}
	return "an answer to " + c.peer.String()
}

// problems are the disagreements.
func (c *trial) problems(records []record.Record) (out []string) {
	wrong := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	from := map[string]netip.Addr{record.PathGateway: world.GatewayAddr, record.PathDirect: world.AppAddr, record.PathPassthrough: world.AppAddr}[c.said.Path]
	switch {
	case (c.err == nil) != (c.said.Verdict == "allow"):
		wrong("explain and Envoy disagree")
	case c.peer != from && c.err == nil:
		wrong("the server saw %s, want %s", c.peer, from)
	case c.refused && c.said.Verdict == "allow":
		wrong("the pod's DNS refuses the name")
	case !c.refused && c.unknown():
		wrong("the pod's DNS knows the name")
	}
	if len(records) != 1 {
		wrong("%d records", len(records))
	}
	for _, r := range records {
		by := c.said.DecidedBy
		if verdict := map[record.Verdict]string{record.Allowed: "allow", record.Denied: "deny"}[r.Verdict]; verdict != c.said.Verdict {
			wrong("the record says %s", r.Verdict)
		}
		if path := r.Path; path != c.said.Path && (path != record.PathMesh || c.said.Path != record.PathDirect) {
			wrong("the record says by %s", r.Path)
		}
		if !c.about(r) {
			wrong("the record is about %s:%d", r.Host, r.Port)
		}
		decided := r.DecidedBy
		decided.Revision = "" // explain does not say it
		if by.Kind != record.EgressPolicy {
			by.Rule = "" // of others it quotes a field
		}
		if (decided != record.Object{Kind: by.Kind, Namespace: by.Namespace, Name: by.Name, Rule: by.Rule}) {
			wrong("the record says that %v decided, explain %v", r.DecidedBy, by)
		}
		if r.Workload.Principal != "spiffe://cluster.local/ns/default/sa/app" {
			wrong("the record is of %q", r.Workload.Principal)
		}
		if strings.Contains(fmt.Sprint(r), "secret") {
			wrong("the record holds the query string")
		}
	}
	return out
}

// unknown says whether nothing is registered by the host's name where that closes it.
func (c *trial) unknown() bool {
	return c.said.Verdict == "deny" && c.said.DecidedBy.Kind != record.EgressPolicy && net.ParseIP(c.host) == nil && strings.HasPrefix(c.host, "nobody.")
}

// about says whether the record names what was tried. A connection that showed no name and was not registered has the
// address that it went to; one to an address that is registered has the host that owns it.
func (c *trial) about(r record.Record) bool {
	if r.Port != uint32(c.port) {
		return false
	}
	registered := r.Path == record.PathGateway || r.Path == record.PathDirect || r.Path == record.PathMesh
	if owner := owners[c.host]; owner != "" && registered {
		return r.Host == owner
	}
	if r.Path == record.PathMesh { // by name or by address: where the app's DNS completes the name, both can be
		return strings.HasPrefix(r.Host, c.host) || strings.HasPrefix(c.host, "pods-0.pods") || strings.HasPrefix(c.host, "also")
	}
	if strings.HasPrefix(c.host, "checkout.store") && registered && c.scheme == "tcp" { // known by its address only
		return r.Host == "checkout.store.svc.cluster.local"
	}
	if c.host == ownedAddr.String() && registered {
		return r.Host == "owner.test"
	}
	if c.host == "second.test" && registered && (c.scheme == "tcp" || c.port == 5432) { // known by its address only
		return r.Host == "owner.test"
	}
	address := net.ParseIP(r.Host) != nil
	return r.Host == c.host || (address && !registered && r.Protocol == "tcp")
}

func lines(records []record.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, fmt.Sprintf("{%s %s:%d %s by %s, %q, %v; %s route=%s cluster=%s status=%d flags=%v dst=%s sni=%s authority=%s}",
			r.Protocol, r.Host, r.Port, r.Verdict, r.Path, r.Reason, r.DecidedBy, r.Reporter, r.Route, r.Cluster, r.Status, r.Flags, r.Destination, r.SNI, r.Authority))
	}
	return strings.Join(out, "\n\t     ")
}
