package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/whole"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestFetchOnUse: a sidecar holds what its pod uses, however the pod comes to use it, and what that leads to is what it
// would lead to otherwise.
func TestFetchOnUse(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	serveOther(ctx, t, s, []uint16{80, 443, 7001})
	f := &fetch{scene: s, app: appOf(s), made: map[string]netip.Addr{}}
	f.write(ctx, t)
	if err := s.SetPolicy(ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	fetchFrom(ctx, t, s, "onUse")
	f.holds(ctx, t)

	f.leads(ctx, t, "a name", "http", "named", world.GatewayAddr)
	f.knowing(netip.Addr{}).leads(ctx, t, "a name's TLS", "https", "named", world.GatewayAddr)
	fixed := f.knowing(f.made["other"])
	fixed.leads(ctx, t, "a Host without a question of DNS", "http", "by-host", world.GatewayAddr)
	fixed.leads(ctx, t, "a TLS name without one", "https", "by-sni", world.GatewayAddr)
	f.knowing(f.made["by-address"]).leads(ctx, t, "an address", "tcp", "by-address", world.GatewayAddr)
	// a name leads to all of its ports, and a connection is asked about by its address, too
	f.holds(ctx, t, "443/by-sni", "443/named", "443/other", "7001/by-address", "7001/named", "80/by-host", "80/named")

	f.leads(ctx, t, "what a pattern stands for", "http", "x.wild", world.GatewayAddr)
	fixed.leads(ctx, t, "what is registered below it", "http", "straight.wild", world.AppAddr)
	fixed.closed(ctx, t, "http", "nobody")
	fixed.closed(ctx, t, "https", "nobody")
	f.knowing(otherAddr).closed(ctx, t, "tcp", "nobody")

	f.recorded(ctx, t)
	f.whole(ctx, t)

	f.withoutController(ctx, t, fixed)
	f.agentSilent(ctx, t, fixed)

	if err := s.SetFetch("onUse\n  keepUnused: 10s"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, 3*time.Minute, func() error { return f.missing(ctx, "80/by-host") }); err != nil {
		t.Errorf("what is not used any more: %v", err)
	}
	fixed.leads(ctx, t, "what left, and is used again", "http", "by-host", world.GatewayAddr)

	if err := s.Config.Remove("fetch-by-host.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, time.Minute, func() error { return f.missing(ctx, "80/by-host") }); err != nil {
		t.Errorf("what is not registered any more: %v", err)
	}
	fixed.closed(ctx, t, "http", "by-host")

	if err := s.SetFetch("all"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, time.Minute, func() error {
		if rows, err := f.rows(ctx); err != nil || !slices.Contains(rows, "80/unused-7") {
			return fmt.Errorf("Envoy has %v (%w)", rows, err)
		}
		return nil
	}); err != nil {
		t.Errorf("all that is registered: %v", err)
	}
	fixed.leads(ctx, t, "what was never used", "http", "unused-3", world.GatewayAddr)
}

// fetch is the test's pod and hosts, whose names are NAME.fetch.test.
type fetch struct {
	scene *story.Scene
	app   caller
	made  map[string]netip.Addr // their made-up addresses
}

const fetchDomain = ".fetch.test"

// wholes are exchanges that come first with their hosts, by which they are called.
func (f *fetch) wholes() (list []whole.Exchange) {
	for _, kind := range downloadsByHTTP {
		for i, e := range exchangesOf(kind) {
			e.ID = fmt.Sprintf("%s-%d", kind[:4], i)
			list = append(list, e)
		}
	}
	return list
}

// portsOf are a host's ports.
func (f *fetch) portsOf(name string) string {
	const pages = "{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}"
	switch {
	case name[0] == '*':
		return pages
	case slices.ContainsFunc(f.wholes(), func(e whole.Exchange) bool { return e.ID == name }):
		return fmt.Sprintf("{number: %d, name: http, protocol: HTTP}", wholePort)
	}
	return pages + ", {number: 7001, name: tcp, protocol: TCP}"
}

// whole: what the first request of a host is answered arrives, though it comes twice.
func (f *fetch) whole(ctx context.Context, t *testing.T) {
	server := serveWhole(t, f.scene.World.Outside, netip.AddrPortFrom(otherAddr, wholePort))
	for _, e := range f.wholes() {
		kind := downloadsByHTTP[0]
		if e.ID[:4] != kind[:4] {
			kind = downloadsByHTTP[1]
		}
		authority := fmt.Sprintf("%s%s:%d", e.ID, fetchDomain, wholePort)
		w := requestWay{server, authority, func(ctx context.Context) (net.Conn, error) {
			return f.app.host.DialContext(ctx, "tcp", netip.AddrPortFrom(f.made[e.ID], wholePort).String())
		}}
		client, account := w.exchange(ctx, kind, e)
		if text := judged(kind, e, client, account); text != "" {
			t.Errorf("%s, first with its host: %s", e, text)
		}
	}
}

// write registers the hosts, and waits until the pod's DNS has all of them. It asks for their addresses while nothing is fetched.
func (f *fetch) write(ctx context.Context, t *testing.T) {
	t.Helper()
	names := []string{"named", "by-host", "by-sni", "by-address", "other", "later", "*.wild", "straight.wild"}
	for _, e := range f.wholes() {
		names = append(names, e.ID)
	}
	for i := range 20 {
		names = append(names, fmt.Sprintf("unused-%d", i))
	}
	for _, name := range names {
		f.scene.Outside.Set(strings.Replace(name, "*", "x", 1)+fetchDomain, time.Minute, otherAddr)
		gateway := "istio-system/istio-egressgateway"
		if name == "straight.wild" {
			gateway = "direct"
		}
		object := strings.ReplaceAll(name, "*.", "any-")
		if err := f.scene.Config.Write("fetch-"+object+".yaml", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %q, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}
spec:
  hosts: [%q]
  location: MESH_EXTERNAL
  resolution: %s
  ports: [%s]
`, object, gateway, name+fetchDomain, map[bool]string{true: "DYNAMIC_DNS", false: "DNS"}[name[0] == '*'], f.portsOf(name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if name[0] == '*' {
			continue
		}
		addr, err := f.app.answered(ctx, name+fetchDomain)
		if err != nil {
			t.Fatal(err)
		}
		f.made[name] = addr
	}
}

// knowing is the pod, knowing an address without having asked for it; the zero Addr has it ask.
func (f *fetch) knowing(addr netip.Addr) *fetch {
	out := *f
	out.app.known = addr
	return &out
}

var fetchPorts = map[string]uint16{"http": 80, "https": 443, "tcp": 7001}

// leads tries a host, once, and says whence the server was reached. The first use of a host waits for the agent, which has up to fetchWait (sidecar/agent) of its own
// and all that the machine keeps it from running: how long that may take is not what is tried here.
func (f *fetch) leads(ctx context.Context, t *testing.T, how, scheme, name string, want netip.Addr) {
	t.Helper()
	app := f.app
	app.patience = time.Minute
	peer, err := app.try(ctx, scheme, name+fetchDomain, fetchPorts[scheme], "/")
	if err != nil {
		t.Errorf("%s (%s, %s): %v", how, scheme, name, err)
	} else if peer != want {
		t.Errorf("%s (%s, %s): reached from %s, want %s", how, scheme, name, peer, want)
	}
}

func (f *fetch) closed(ctx context.Context, t *testing.T, scheme, name string) {
	t.Helper()
	if peer, err := f.app.try(ctx, scheme, name+fetchDomain, fetchPorts[scheme], "/"); err == nil {
		t.Errorf("%s by %s was reached from %s", name, scheme, peer)
	}
}

var fetchRow = regexp.MustCompile(`"name": "([0-9]+/[^"]+)` + regexp.QuoteMeta(fetchDomain) + `"`)

// rows are those of the test's hosts that the pod's Envoy has.
func (f *fetch) rows(ctx context.Context) (out []string, err error) {
	dump, err := f.scene.App.Admin(ctx, "/config_dump?resource=dynamic_route_configs")
	for _, found := range fetchRow.FindAllSubmatch(dump, -1) {
		out = append(out, string(found[1]))
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

func (f *fetch) holds(ctx context.Context, t *testing.T, want ...string) {
	t.Helper()
	if err := world.Within(ctx, time.Minute, func() error { // a name's other rows come with the one that was waited for, or after it
		if rows, err := f.rows(ctx); err != nil || !slices.Equal(rows, want) {
			return fmt.Errorf("Envoy has %v (%w), want %v", rows, err, want)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func (f *fetch) missing(ctx context.Context, row string) error {
	rows, err := f.rows(ctx)
	if slices.Contains(rows, row) {
		err = fmt.Errorf("Envoy has %s", row)
	}
	return err
}

// recorded holds that what came for the first time is recorded with where it came from, whatever its headers say of that.
func (f *fetch) recorded(ctx context.Context, t *testing.T) {
	t.Helper()
	app := f.knowing(f.made["other"]).app
	if status, _, err := app.get(ctx, time.Minute, "nobody-else"+fetchDomain, 80, "/", http.Header{"X-Forwarded-For": {"198.51.100.9"}}); err == nil && status < 400 {
		t.Errorf("what nobody registered is answered with %d", status)
	}
	for host, forwarded := range map[string]string{"straight.wild": "", "nobody": "", "nobody-else": "198.51.100.9"} {
		if err := world.Within(ctx, time.Minute, func() error {
			records, err := f.scene.AuditRecords(ctx, "--host", host+fetchDomain)
			if err != nil {
				return err
			}
			for _, r := range records {
				if r.Reporter != record.ReporterSidecar || r.Protocol != "http" {
					continue
				}
				from, err := netip.ParseAddrPort(r.Source)
				if err != nil || from.Addr() != world.AppAddr || r.ForwardedFor != forwarded {
					t.Errorf("%s: the record has the source %q, and forwarded for %q: %+v", host, r.Source, r.ForwardedFor, r)
				}
				return nil
			}
			return fmt.Errorf("the sidecar has recorded nothing of %s among %d records", host, len(records))
		}); err != nil {
			t.Error(err)
		}
	}
}

// withoutController: what was used works, since it is on the pod's disk. What was not cannot be had: it is closed, and both DNS and HTTP say why. What nobody
// registered stays closed. So it is when the proxy, too, was killed.
func (f *fetch) withoutController(ctx context.Context, t *testing.T, fixed *fetch) {
	t.Helper()
	if err := world.Within(ctx, time.Minute, func() error { return f.onDisk("80/by-host", "80/named", "80/*.wild", "80/straight.wild") }); err != nil {
		t.Fatal(err)
	}
	if err := f.onDisk("80/unused-1"); err == nil {
		t.Error("what was not used is on the pod's disk")
	}
	if err := f.scene.Controller.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"without a controller", "without a controller, started again"} {
		f.leads(ctx, t, when+", what was used", "http", "named", world.GatewayAddr)
		fixed.leads(ctx, t, when+", what was used by its Host", "http", "by-host", world.GatewayAddr)
		f.leads(ctx, t, when+", what a pattern stands for", "http", "x.wild", world.GatewayAddr)
		fixed.leads(ctx, t, when+", what is registered below it", "http", "straight.wild", world.AppAddr)
		status, text, err := fixed.app.get(ctx, time.Minute, "unused-1"+fetchDomain, 80, "/", http.Header{})
		if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(text, "the controller does not answer") {
			t.Errorf("%s, what was not used: %d %q (%v), want a 503 that says why", when, status, text, err)
		}
		fixed.closed(ctx, t, "https", "unused-2")
		if rcode, said, err := f.app.asks(ctx, "unused-3"+fetchDomain); err != nil || rcode != dns.RcodeServerFailure || !strings.Contains(said, "the controller does not answer") {
			t.Errorf("%s, the name of what was not used: %s %q (%v), want SERVFAIL that says why", when, dns.RcodeToString[rcode], said, err)
		}
		fixed.closed(ctx, t, "http", "nobody")
		fixed.closed(ctx, t, "https", "nobody")
		if err := f.scene.App.Restart(ctx, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.scene.Controller.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, 2*time.Minute, func() error {
		_, err := fixed.app.whileOpen(true).try(ctx, "http", "unused-1"+fetchDomain, 80, "/")
		return err
	}); err != nil {
		t.Errorf("with a controller again, what was not used: %v", err)
	}
}

// asks has the pod's DNS say what becomes of a name, and what an extended error says of that.
func (c caller) asks(ctx context.Context, host string) (rcode int, said string, err error) {
	conn, err := c.host.DialContext(ctx, "udp", netip.AddrPortFrom(world.NameServerAddr, 53).String())
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, "", err
	}
	m := new(dns.Msg).SetQuestion(dns.Fqdn(host), dns.TypeA)
	m.SetEdns0(1232, false)
	wire := &dns.Conn{Conn: conn}
	if err := wire.WriteMsg(m); err != nil {
		return 0, "", err
	}
	got, err := wire.ReadMsg()
	if err != nil {
		return 0, "", err
	}
	if opt := got.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, is := o.(*dns.EDNS0_EDE); is {
				said += e.ExtraText
			}
		}
	}
	return got.Rcode, said, nil
}

// onDisk says whether the pod's agent has written rows down. It takes its time for that, and what comes by kill -9 before is
// as if the controller had not said it.
func (f *fetch) onDisk(rows ...string) error {
	files, err := filepath.Glob(filepath.Join(f.scene.App.RunDir(), "state", "xds", "*"))
	if err != nil {
		return err
	}
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		all = append(all, text...)
	}
	for _, row := range rows {
		if !bytes.Contains(all, []byte(row+fetchDomain)) {
			return fmt.Errorf("%s is not on disk yet", row)
		}
	}
	return nil
}

// agentSilent: while the pod's agent does nothing, what was used works, and what was not is closed, with a reason.
func (f *fetch) agentSilent(ctx context.Context, t *testing.T, fixed *fetch) {
	t.Helper()
	f.leads(ctx, t, "used before", "http", "named", world.GatewayAddr)
	if err := f.scene.App.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fixed.leads(ctx, t, "while the agent is silent, what was used", "http", "named", world.GatewayAddr)
	known := fixed.app
	known.patience = time.Minute
	status, text, err := known.get(ctx, time.Minute, "later"+fetchDomain, 80, "/", http.Header{})
	if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(text, "agent") {
		t.Errorf("what was not used before: %d %q (%v), want a 503 that says why", status, text, err)
	}
	if peer, err := known.try(ctx, "tls", "later"+fetchDomain, 443, "/"); err == nil {
		t.Errorf("TLS to what was not used before was reached from %s", peer)
	}
	if err := f.scene.App.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	fixed.leads(ctx, t, "when it speaks again", "https", "later", world.GatewayAddr)
}
