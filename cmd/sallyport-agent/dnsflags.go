package main

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/dnsproxy"
	"github.com/sallyport/sallyport/dnsproxy/limit"
	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// dnsFlags are what the resolver alone is told.
type dnsFlags struct {
	listen, admin          string
	upstreams              []string
	upstreamCA, resolvConf string
	forward                map[string][]string
	forwardTexts           []string
	names                  string
	search, local          []string
	only, refuse           bool
	rate, oddRate          float64
	cacheBytes             int
	patience               time.Duration
	maxStale, staleAfter   time.Duration
	verbose                bool
}

func (f *dnsFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.listen, "listen", "", "IP:PORT to answer on, UDP and TCP; port 0 takes a free one (needed)")
	set.StringVar(&f.admin, "admin-addr", "", "IP:PORT for /metrics, /dns/cache, /dns/flush and /dns/upstreams; a loopback address")
	set.StringSliceVar(&f.upstreams, "upstream", nil, "resolvers to ask, the fastest first: IP[:PORT], tcp://IP[:PORT] or tls://IP[:PORT]#NAME")
	set.StringVar(&f.upstreamCA, "upstream-ca", "", "PEM file with the roots that vouch for tls:// resolvers, instead of the system's")
	set.StringVar(&f.resolvConf, "resolv-conf", "", "take the resolvers from this file instead, and follow it")
	set.StringArrayVar(&f.forwardTexts, "forward", nil, "DOMAIN=ADDR[,ADDR…]: ask these for a domain and all below it; repeatable")
	set.DurationVar(&f.patience, "patience", upstream.DefaultPatience, "how long the resolvers may take for one question, with all attempts")
	set.StringVar(&f.names, "names", "", "file of names to answer without asking anybody")
	set.StringSliceVar(&f.search, "search", nil, "domains that clients append: NAME.DOMAIN is an alias of the file's NAME")
	set.BoolVar(&f.only, "names-only", false, "answer NXDOMAIN for what the file of names does not have")
	set.StringSliceVar(&f.local, "local", nil, "with --names-only: domains that are resolved nevertheless, like cluster.local")
	set.Float64Var(&f.rate, "rate", 0, "questions a second that each client may have asked upstream; 0: no limit")
	set.Float64Var(&f.oddRate, "odd-rate", 0, "the same for those that look like a tunnel's: TXT and rare types, long or random names")
	set.BoolVar(&f.refuse, "refuse-inside", false, "take private, loopback, link-local and metadata addresses out of upstream's answers")
	set.IntVar(&f.cacheBytes, "cache-bytes", 4<<20, "bound of the cache, in bytes")
	set.DurationVar(&f.maxStale, "max-stale", time.Hour, "how long an expired answer helps out while no resolver answers; 0: never")
	set.DurationVar(&f.staleAfter, "stale-after", 1800*time.Millisecond, "how long a fresh answer is waited for while there is an expired one")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "log each failure too")
}

// config reads the flags into the resolver's terms.
func (f *dnsFlags) config(log *slog.Logger) (dnsproxy.Config, error) {
	var none dnsproxy.Config
	if err := f.check(); err != nil {
		return none, err
	}
	roots, err := f.roots()
	if err != nil {
		return none, err
	}
	view := dnsproxy.View{Name: "app", Listen: []string{f.listen}, Names: true, Search: f.search}
	if f.refuse {
		view.Refuse = inside.Allowed{}.Refuses
	}
	stale := f.maxStale
	if stale == 0 {
		stale = -1
	}
	return dnsproxy.Config{
		Views: []dnsproxy.View{view}, Upstreams: f.upstreams, UpstreamRoots: roots, ResolvConf: f.resolvConf, Forward: f.forward,
		Patience: f.patience, CacheBytes: f.cacheBytes, MaxStale: stale, StaleAfter: f.staleAfter, Prefetch: true, Log: log,
	}, nil
}

func (f *dnsFlags) check() error {
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return fmt.Errorf("--listen %q: write IP:PORT, as in 127.0.0.1:15053", f.listen)
	}
	if admin, err := netip.ParseAddrPort(f.admin); f.admin != "" && (err != nil || !admin.Addr().IsLoopback()) {
		return fmt.Errorf("--admin-addr %q: write IP:PORT of the loopback, as in 127.0.0.1:5380: who reaches it can clear the cache", f.admin)
	}
	f.forward = map[string][]string{}
	for _, text := range f.forwardTexts {
		domain, servers, ok := strings.Cut(text, "=")
		if !ok || domain == "" || servers == "" {
			return fmt.Errorf("--forward %q: write DOMAIN=ADDR[,ADDR…], as in corp.test=10.0.0.53", text)
		}
		f.forward[domain] = append(f.forward[domain], strings.Split(servers, ",")...)
	}
	switch {
	case len(f.upstreams) > 0 && f.resolvConf != "":
		return fmt.Errorf("--upstream and --resolv-conf exclude each other; give one of them")
	case !f.asks() && len(f.forward) == 0 && !f.only:
		return fmt.Errorf("--upstream is needed, as in --upstream 10.96.0.10 (or --resolv-conf, --forward, or --names-only)")
	case f.only && f.names == "":
		return fmt.Errorf("--names-only needs --names FILE")
	case len(f.local) > 0 && !f.only:
		return fmt.Errorf("--local says what --names-only leaves open; give both, or neither")
	case f.patience <= 0:
		return fmt.Errorf("--patience %v: must be longer than nothing", f.patience)
	case f.rate < 0 || f.oddRate < 0:
		return fmt.Errorf("--rate and --odd-rate: %v and %v questions a second; write 0 for no limit", f.rate, f.oddRate)
	}
	return nil
}

// asks tells whether there are resolvers for names in general.
func (f *dnsFlags) asks() bool { return len(f.upstreams) > 0 || f.resolvConf != "" }

func (f *dnsFlags) roots() (*x509.CertPool, error) {
	if f.upstreamCA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.upstreamCA)
	if err != nil {
		return nil, fmt.Errorf("--upstream-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--upstream-ca %s: holds no certificate in PEM", f.upstreamCA)
	}
	return roots, nil
}

// policy leaves the domains open that have resolvers of their own.
func (f *dnsFlags) policy() dnsproxy.Policy {
	return dnsproxy.Policy{
		RefuseUnregistered: f.only, LocalReverse: f.asks(), Local: slices.Concat(f.local, slices.Collect(maps.Keys(f.forward))),
		Upstream: limit.Rate{PerSecond: f.rate}, Odd: limit.Rate{PerSecond: f.oddRate},
	}
}
