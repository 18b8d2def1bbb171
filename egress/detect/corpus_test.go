package detect_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/detect"
)

// end is when the corpus ends; nothing in it looks at a clock.
var end = time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// window is the corpus's last day, with two weeks before it.
func window() detect.Window {
	since := end.Add(-day)
	return detect.Window{Past: since.Add(-detect.Usual), Since: since, Until: end}
}

// corpus makes records of a mesh from a seed: what is said of it is what happens, chance decides when and how much.
type corpus struct {
	chance *rand.Rand
	out    []record.Record
	seq    uint64
}

func newCorpus(seed uint64) *corpus { return &corpus{chance: rand.New(rand.NewPCG(seed, 34))} }

// begins is when the clean traffic begins.
func begins() time.Time { return end.Add(-15 * day) }

// one adds a record of a workload.
func (c *corpus) one(at time.Time, workload, host string, change ...func(*record.Record)) {
	c.seq++
	r := record.Record{
		Proxy: "router~10.0.0.9~egress-1.istio-system~istio-system.svc.cluster.local", Epoch: 1, Seq: c.seq, Time: at.Truncate(time.Microsecond),
		Class: record.Network, Verdict: record.Allowed, Path: record.PathGateway, Reporter: record.ReporterGateway, Direction: record.Outbound,
		Workload: record.Workload{Principal: "spiffe://cluster.local/ns/shop/sa/" + workload, Namespace: "shop", ServiceAccount: workload, Name: workload + "-7d9f8c6b5-x2x4z"},
		Host:     host, Port: 443, Protocol: "tls", DecidedBy: record.Object{Kind: "ServiceEntry", Namespace: "shop", Name: "hosts"},
		BytesReceived: c.bytes(4000), BytesSent: c.bytes(20000), Duration: time.Duration(c.bytes(float64(300 * time.Millisecond))),
	}
	for _, f := range change {
		f(&r)
	}
	c.out = append(c.out, r)
}

// bytes are around a middle, as sizes are: many small, some large.
func (c *corpus) bytes(middle float64) uint64 {
	return uint64(middle * math.Exp(c.chance.NormFloat64()*0.8))
}

// poisson calls f at times without memory, from so much before the end.
func (c *corpus) poisson(from, to time.Time, every time.Duration, f func(at time.Time)) {
	for at := from; ; {
		at = at.Add(time.Duration(c.chance.ExpFloat64() * float64(every)))
		if !at.Before(to) {
			return
		}
		f(at)
	}
}

// regular calls f by the clock; jitter is a part of every.
func (c *corpus) regular(from, to time.Time, every time.Duration, jitter float64, f func(at time.Time)) {
	for at := from.Add(time.Duration(c.chance.Float64() * float64(every))); at.Before(to); {
		f(at)
		at = at.Add(time.Duration(float64(every) * (1 + jitter*(2*c.chance.Float64()-1))))
	}
}

func sized(out, in uint64, lasted time.Duration) func(*record.Record) {
	return func(r *record.Record) { r.BytesReceived, r.BytesSent, r.Duration = out, in, lasted }
}

func passthrough(r *record.Record) { r.Path, r.DecidedBy = record.PathPassthrough, record.Object{} }

func denied(r *record.Record) {
	r.Verdict, r.Path, r.DecidedBy = record.Denied, record.PathBlackhole, record.Object{}
	r.BytesReceived, r.BytesSent, r.Duration, r.Reason = 0, 0, 0, r.Host+" is not registered"
}

func name(r *record.Record) {
	denied(r)
	r.Class, r.Protocol, r.Port, r.Reporter = record.DNS, "dns", 0, record.ReporterSidecar
}

// hostile are hosts that clients can write.
var hostile = []string{
	`x'); DROP TABLE records; --.test`, `"quoted".test`, "\x1b[31mred\x1b[0m.test", "a\nb.test", "\u202egpj.test", "null\x00byte.test", "-", ".", "..", "$since.test",
	strings.Repeat("a.", 200) + "test", strings.Repeat("x", 500), "ünï.test", "*", "%", `\`, "[::1]", "1.2.3.4", "a..b", " ", "'", "''", "/*", "*/", "--", `{"a":1}`, "=cmd()",
}

// clean is a mesh's ordinary traffic: nothing of it is to be found. rate multiplies how much of it there is.
func (c *corpus) clean(rate float64) {
	hosts := []string{"api.payments.test", "login.identity.test", "hooks.chat.test", "eu.queue.test", "mail.sender.test", "metrics.vendor.test", "geo.maps.test", "tax.rates.test", "search.saas.test", "db.managed.test"}
	for i := range 20 { // applications, each with hosts of its own choice
		workload := fmt.Sprintf("app-%d", i)
		for _, h := range c.chance.Perm(len(hosts))[:4] {
			c.poisson(begins(), end, time.Duration(float64(2*time.Hour)/rate), func(at time.Time) { c.one(at, workload, hosts[h]) })
		}
		own := fmt.Sprintf("tenant-%d.partner.test", i)
		c.poisson(begins(), end, time.Duration(float64(3*time.Hour)/rate), func(at time.Time) { c.one(at, workload, own) })
	}
	every := func(workload, host string, from time.Time, every time.Duration, jitter float64) {
		c.regular(from, end, every, jitter, func(at time.Time) { c.one(at, workload, host, sized(320, 1100, 40*time.Millisecond)) })
	}
	every("probe", "status.payments.test", begins(), 5*time.Minute, 0.01)
	every("cron", "export.partner.test", begins(), time.Hour, 0)
	every("cron", "report.partner.test", begins(), day, 0)
	every("clock", "time.pool.test", begins(), 64*time.Second*10, 0)
	c.regular(begins(), end, 4*time.Hour, 0.3, func(at time.Time) { // updates: a list, and at times what is new
		c.one(at, "updater", "updates.vendor.test", sized(700, 40_000, 200*time.Millisecond))
		if c.chance.IntN(3) == 0 {
			c.one(at.Add(3*time.Second), "updater", fmt.Sprintf("release-%d-packages.updates.vendor.test", at.Unix()/86400), sized(900, 80e6, 30*time.Second))
		}
	})
	for i := range 3 { // pods of one workload, each with its own health check since long
		c.regular(begins(), end, 10*time.Minute, 0.01, func(at time.Time) {
			c.one(at, "checked", "health.managed.test", sized(320, 1100, 40*time.Millisecond), func(r *record.Record) { r.Workload.Name = fmt.Sprintf("checked-7d9f8c6b5-%dzz4z", i+2) })
		})
	}
	every("newcomer", "status.payments.test", end.Add(-30*time.Hour), 5*time.Minute, 0.01) // of a release of yesterday
	every("newcomer", "export.partner.test", end.Add(-30*time.Hour), time.Hour, 0)
	c.poisson(begins(), end, 15*time.Minute, func(at time.Time) { // a CDN's names come and go
		c.one(at, "web", fmt.Sprintf("d%08x.cdn.test", c.chance.IntN(60)+int(at.Sub(begins())/day)*7))
	})
	c.poisson(begins(), end, 20*time.Minute, func(at time.Time) { // buckets
		c.one(at, "backup", fmt.Sprintf("shop-prod-archive-%02d-invoices.s3.eu-central-1.storage.test", c.chance.IntN(40)))
	})
	c.regular(begins(), end, 7*day, 0, func(at time.Time) { c.one(at, "backup", "vault.storage.test", sized(400e6, 900, time.Minute)) })
	c.regular(begins(), end, day, 0, func(at time.Time) { c.one(at, "backup", "vault.storage.test", sized(20e6, 900, time.Minute)) })
	for _, workload := range []string{"crawler", "feeds"} { // nobody registered what they use, and it is let through
		for h := range 6 {
			host := fmt.Sprintf("www.site-%s-%d.test", workload, h)
			c.poisson(begins(), end, 4*time.Hour, func(at time.Time) { c.one(at, workload, host, passthrough) })
		}
	}
	c.poisson(begins(), end, 3*time.Hour, func(at time.Time) { // a host that is away at times: tried again, each time later
		for wait := time.Second; wait < time.Minute; wait *= 2 {
			c.one(at, "retrier", "flaky.partner.test", func(r *record.Record) { r.Class, r.Status, r.Flags = record.HTTP, 503, []string{"UF"} })
			at = at.Add(wait + time.Duration(c.chance.Float64()*float64(wait)))
		}
	})
	c.poisson(begins(), end, 30*time.Minute, func(at time.Time) { // somebody's telemetry, always closed
		c.one(at, "app-3", "telemetry.vendor.test", name)
	})
	for i, host := range hostile {
		c.poisson(begins(), end, 6*time.Hour, func(at time.Time) {
			c.one(at, "scanner", host, func(r *record.Record) { r.Class, r.Authority, r.Port = record.HTTP, host, uint32(i) })
		})
	}
	c.regular(begins(), end.Add(-time.Hour), 10*time.Minute, 0.1, func(at time.Time) { // goes quiet, not for long
		c.one(at, "app-0", "api.payments.test", func(r *record.Record) { r.Proxy = "sidecar~10.0.1.1~steady-6f7d8b9c5d-abcde.shop~shop.svc" })
	})
}

// what is what is to be found: by rule, workloads and hosts.
type what map[string][]string

func (w what) add(rule, workload, host string) { w[rule] = append(w[rule], workload+" "+host) }

// bad adds what is to be found, in the last day.
func (c *corpus) bad() what {
	found, from := what{}, end.Add(-20*time.Hour)
	// A beacon that nobody registered, with a fifth of jitter.
	c.regular(from, end, 5*time.Minute, 0.2, func(at time.Time) {
		c.one(at, "app-1", "cdn.c2.test", passthrough, sized(410+uint64(c.chance.IntN(40)), 700, 90*time.Millisecond))
	})
	found.add("beacon", "app-1", "cdn.c2.test")
	found.add("first-seen-host", "app-1", "cdn.c2.test")
	found.add("rare-host", "app-1", "cdn.c2.test")
	// A slow one to a registered host that the workload never used.
	c.regular(from, end, 70*time.Minute, 0.1, func(at time.Time) {
		c.one(at, "app-2", "paste.saas.test", sized(900+uint64(c.chance.IntN(60)), 300, 120*time.Millisecond))
	})
	found.add("beacon", "app-2", "paste.saas.test")
	found.add("first-seen-host", "app-2", "paste.saas.test")
	// One whose name is refused.
	c.regular(from, end, 9*time.Minute, 0.3, func(at time.Time) { c.one(at, "app-4", "home.malware.test", name) })
	found.add("beacon", "app-4", "home.malware.test")
	// One of three pods, each by its own clock; and one that asks and then fetches.
	for i, phase := range []time.Duration{0, 3 * time.Minute, 5 * time.Minute} {
		c.regular(from.Add(phase), end, 11*time.Minute, 0.15, func(at time.Time) {
			c.one(at, "app-11", "swarm.c2.test", passthrough, sized(510+uint64(c.chance.IntN(30)), 200, 70*time.Millisecond), func(r *record.Record) { r.Workload.Name = fmt.Sprintf("app-11-7d9f8c6b5-%dzz4z", i+2) })
		})
	}
	c.regular(from, end, 13*time.Minute, 0.2, func(at time.Time) {
		for i := range 2 {
			c.one(at.Add(time.Duration(i)*2500*time.Millisecond), "app-12", "fetch.c2.test", passthrough, sized(300, 5_000, 80*time.Millisecond))
		}
	})
	for workload, host := range map[string]string{"app-11": "swarm.c2.test", "app-12": "fetch.c2.test"} {
		found.add("beacon", workload, host)
		found.add("first-seen-host", workload, host)
		found.add("rare-host", workload, host)
	}
	// Tunnels: by names that are refused, and by a wildcard that lets them out.
	data := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(c.chance.Uint32())
		}
		return hex.EncodeToString(b)
	}
	c.poisson(from, end, 3*time.Minute, func(at time.Time) { c.one(at, "app-5", data(20)+"."+data(4)+".t.exfil.test", name) })
	found.add("dns-tunnel", "app-5", "*.exfil.test")
	c.poisson(from, end, 4*time.Minute, func(at time.Time) { c.one(at, "app-6", data(16)+".tun.co.uk") })
	found.add("dns-tunnel", "app-6", "*.tun.co.uk")
	found.add("first-seen-host", "app-6", "*.tun.co.uk")
	// A slow one, of names as long as they may be, each asked for by both kinds of address and once more.
	c.regular(from, end, 45*time.Minute, 0.4, func(at time.Time) {
		long := data(31) + ".s.drip.test"
		for i := range 3 {
			c.one(at.Add(time.Duration(i)*700*time.Millisecond), "app-13", long, name)
		}
	})
	found.add("dns-tunnel", "app-13", "*.drip.test")
	// Generated domains, tried one after the other.
	for i := range 40 {
		letters := make([]byte, 12)
		for j := range letters {
			letters[j] = 'a' + byte(c.chance.IntN(26))
		}
		c.one(from.Add(time.Duration(i)*50*time.Second+time.Duration(c.chance.Float64()*40e9)), "app-7", string(letters)+[]string{".info", ".biz", ".ru"}[i%3], name)
	}
	found.add("generated-names", "app-7", "")
	// Data carried off, to a host that is in use.
	for i := range 12 {
		c.one(from.Add(time.Duration(i)*11*time.Minute+time.Duration(c.chance.Float64()*1e11)), "app-8", "tenant-8.partner.test", sized(40e6, 2000, time.Minute))
	}
	found.add("volume", "app-8", "tenant-8.partner.test")
	// Somebody looks what is open.
	for i := range 200 {
		c.one(from.Add(time.Hour+time.Duration(c.chance.Float64()*2e11)), "app-9", fmt.Sprintf("host-%d.internal.test", i%3), denied)
	}
	found.add("denied-burst", "app-9", "host-0.internal.test")
	c.one(from, "app-10", "www.known.bad.test", name)
	found.add("feed", "app-10", "www.known.bad.test")
	c.one(from, "", "", func(r *record.Record) {
		*r = record.Record{Proxy: "sidecar~10.0.0.3~cart-1.shop~shop.svc.cluster.local", Epoch: 1, Seq: r.Seq, Time: r.Time, Class: record.Gap, Count: 17, Reason: "the disk was full"}
	})
	found.add("gap", "cart-1", "")
	c.regular(begins(), end.Add(-5*time.Hour), 20*time.Minute, 0.1, func(at time.Time) {
		c.one(at, "app-0", "api.payments.test", func(r *record.Record) { r.Proxy = "sidecar~10.0.1.2~quiet-6f7d8b9c5d-fghjk.shop~shop.svc" })
	})
	found.add("silent-proxies", "quiet", "")
	// Proxies of which there is nothing, though a replica reports, and though others reach the pod.
	c.regular(begins(), end, 20*time.Minute, 0.1, func(at time.Time) {
		c.one(at, "app-0", "api.payments.test", func(r *record.Record) { r.Proxy = "sidecar~10.0.1.4~talks-6f7d8b9c5d-x2x4z.shop~shop.svc" })
	})
	found.add("unheard-proxies", "talks", "")
	c.regular(from, end, 20*time.Minute, 0.1, func(at time.Time) {
		c.one(at, "app-0", "db.shop.svc.cluster.local", func(r *record.Record) {
			r.Path, r.Direction, r.DestinationWorkload = record.PathMesh, record.Lateral, record.Workload{Namespace: "shop", ServiceAccount: "db", Name: "db-0"}
		})
	})
	found.add("unheard-proxies", "db", "")
	return found
}

// stored is the log of a store with the corpus in it.
func (c *corpus) stored(tb testing.TB) detect.DB {
	tb.Helper()
	return detect.DB{DB: c.kept(tb).DB()}
}

// kept puts the corpus into a store.
func (c *corpus) kept(tb testing.TB) *store.Store {
	tb.Helper()
	s, err := store.Open(context.Background(), filepath.Join(tb.TempDir(), "audit"), store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	for len(c.out) > 0 {
		n := min(len(c.out), 20_000)
		for i := range n {
			c.out[i].Bound()
		}
		if err := s.Store(context.Background(), c.out[:n]); err != nil {
			tb.Fatal(err)
		}
		c.out = c.out[n:]
	}
	return s
}
