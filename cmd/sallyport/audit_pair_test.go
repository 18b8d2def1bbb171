package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
	"github.com/sallyport/sallyport/sidecar/secrets"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/meshtls"
)

// pairLab is a controller, which is the CA, and two audit servers that keep one log.
type pairLab struct {
	programs
	dir, loopback string
	servers       map[string]*running
}

// address is one that nobody else has: a loopback address of this process's own.
func (l *pairLab) address(port int) string { return fmt.Sprintf("%s:%d", l.loopback, port) }

func startPairLab(t *testing.T) *pairLab {
	if testing.Short() {
		t.Skip("starts the real programs: not with -short")
	}
	pid := os.Getpid()
	l := &pairLab{dir: programs{}.dir(t), loopback: fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, pid&255), servers: map[string]*running{}}
	l.sallyport = filepath.Join(l.dir, "sallyport")
	if err := copyFile(l.sallyport, os.Args[0]); err != nil {
		t.Fatal(err)
	}
	controller := l.start(t, "controller", "--config-dir", l.programs.dir(t), "--data", l.file("c"), "--audit=false", "--xds-addr", "", "--admin-addr", "", "--secure-xds-addr", l.address(15012), "--host", l.loopback)
	upEventually(t, "the CA's root", func() error {
		select {
		case err := <-controller.done:
			return fmt.Errorf("it ended: %w", err)
		default:
		}
		_, err := os.Stat(l.root())
		return err
	})
	return l
}

func (l *pairLab) file(name string) string { return filepath.Join(l.dir, name) }

func (l *pairLab) root() string { return l.file("c/root-cert.pem") }

// token is a file with a token of an account in istio-system.
func (l *pairLab) token(t *testing.T, account string) string {
	t.Helper()
	var out []byte
	upEventually(t, "a token", func() (err error) {
		out, err = l.command(t.Context(), "token", "--data", l.file("c"), "istio-system/"+account).Output()
		return err
	})
	path := l.file("token-" + account)
	if err := os.WriteFile(path, out, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts a server, a or b, on its data of before.
func (l *pairLab) serve(t *testing.T, name string, more ...string) *running {
	t.Helper()
	ports := map[string][2]int{"a": {15016, 15019}, "b": {15026, 15029}}
	r := l.start(t, append([]string{
		"audit", "server", "--data", l.file(name), "--console-addr", "", "--detect-every", "0", "--namespace", "istio-system",
		"--tls-addr", l.address(ports[name][0]), "--ca-address", l.address(15012), "--ca-root", l.root(), "--token", l.token(t, "sallyport-audit"),
		"--pair", "a=" + l.address(15019) + ",b=" + l.address(15029), "--pair-name", name, "--pair-addr", l.address(ports[name][1]),
	}, more...)...)
	l.servers[name] = r
	return r
}

// kill ends a server as a lost machine would.
func (l *pairLab) kill(t *testing.T, name string) {
	if err := l.servers[name].end(t, syscall.SIGKILL); err == nil {
		t.Errorf("%s ended by itself", name)
	}
}

// connect is a controller's connection to the servers: to the first that is there.
func (l *pairLab) connect(t *testing.T, account string) *grpc.ClientConn {
	t.Helper()
	own, err := secrets.New(secrets.Options{Folder: t.TempDir(), CARootFile: l.root(), TokenFile: l.token(t, account), Namespace: "istio-system", ServiceAccount: account})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := grpc.NewClient(l.address(15012), own.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { own.Run(ctx, ca); close(done) }()
	t.Cleanup(func() { end(); <-done; _ = ca.Close() })
	upEventually(t, "a certificate", func() error { _, err := own.Certificate(); return err })
	both := manual.NewBuilderWithScheme("pair")
	both.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: l.address(15016)}, {Addr: l.address(15026)}}})
	quick := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond}
	conn, err := grpc.NewClient("pair:///log", grpc.WithResolvers(both), grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: 5 * time.Second}),
		grpc.WithTransportCredentials(credentials.NewTLS(l.client(own))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (l *pairLab) client(own *secrets.Workload) *tls.Config {
	return meshtls.Client(own, identity.ID{TrustDomain: identity.DefaultTrustDomain, Namespace: "istio-system", ServiceAccount: "sallyport-audit"})
}

// sender is a proxy that has records all the time, and knows which of them were acknowledged.
type sender struct {
	*spool.Spool
	proxy       string
	made, acked atomic.Uint64
}

// Ack implements ingest.Source.
func (s *sender) Ack(seq uint64) error {
	s.acked.Store(seq)
	return s.Spool.Ack(seq)
}

// send makes records until stop, and ships them until all are acknowledged.
func (s *sender) send(ctx context.Context, stop <-chan struct{}, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shipped := make(chan error, 1)
	go func() { shipped <- ingest.Ship(ctx, conn, s, nil) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for made := true; made || s.acked.Load() < s.made.Load(); {
		select {
		case <-stop:
			made = false
		default:
		}
		select {
		case err := <-shipped:
			return fmt.Errorf("%s, %d of %d acknowledged: %w", s.proxy, s.acked.Load(), s.made.Load(), err)
		case <-tick.C:
		}
		for range 2 {
			if !made {
				break
			}
			r := record.Record{Time: time.Now(), Class: record.HTTP, Verdict: record.Allowed, Host: "h.test", Proxy: s.proxy, Workload: record.Workload{Namespace: "shop", ServiceAccount: "cart"}}
			if err := s.Append(r); err != nil {
				return err
			}
			s.made.Add(1)
		}
	}
	cancel()
	<-shipped
	return nil
}

// holds compares what a server answers with what each sender had acknowledged when it was asked: all of it, and nothing twice.
func (l *pairLab) holds(t *testing.T, when, name string, senders []*sender) {
	t.Helper()
	acked := map[string]uint64{}
	for _, s := range senders {
		acked[s.proxy] = s.acked.Load()
	}
	source, err := query.Open(t.Context(), l.file(name))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	got, twice := map[string]map[uint64]bool{}, 0
	err = source.Select(t.Context(), query.Filter{}, func(r record.Record) error {
		if got[r.Proxy] == nil {
			got[r.Proxy] = map[uint64]bool{}
		}
		if got[r.Proxy][r.Seq] {
			twice++
		}
		got[r.Proxy][r.Seq] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for proxy, until := range acked {
		missing := 0
		for seq := uint64(1); seq <= until; seq++ {
			if !got[proxy][seq] {
				missing++
			}
		}
		if all += int(until); missing > 0 {
			t.Errorf("%s: %s lacks %d of %d records of %s that were acknowledged", when, name, missing, until, proxy)
		}
	}
	if twice > 0 {
		t.Errorf("%s: %s has %d records twice", when, name, twice)
	}
	t.Logf("%s: %s has all %d records that were acknowledged", when, name, all)
}

// TestPairedServers: of two real audit servers under load either is killed, and the other one answers with all that was acknowledged at that moment;
// in the end both have every record once. Whoever is not the other server hands in no copies, also with a certificate of the mesh.
func TestPairedServers(t *testing.T) {
	l := startPairLab(t)
	l.serve(t, "a")
	l.serve(t, "b")
	for _, name := range []string{"a", "b"} {
		l.servers[name].says(t, "audit server is ready")
	}
	conn := l.connect(t, "sallyport")
	stop := make(chan struct{})
	var senders []*sender
	var group sync.WaitGroup
	for i := range 4 {
		sp, err := spool.Open(t.TempDir(), spool.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer sp.Close()
		s := &sender{Spool: sp, proxy: fmt.Sprintf("sidecar~10.0.0.%d~p.shop~shop.svc.cluster.local", i)}
		senders = append(senders, s)
		group.Go(func() {
			if err := s.send(t.Context(), stop, conn); err != nil {
				t.Error(err)
			}
		})
	}
	more := func() {
		t.Helper()
		var from []uint64
		for _, s := range senders {
			from = append(from, s.acked.Load())
		}
		upEventually(t, "records of every sender", func() error {
			for i, s := range senders {
				if s.acked.Load() < from[i]+200 {
					return fmt.Errorf("%s has %d acknowledged, %d before", s.proxy, s.acked.Load(), from[i])
				}
			}
			return nil
		})
	}
	for round := range 2 {
		for _, victim := range [][2]string{{"a", "b"}, {"b", "a"}} {
			more()
			l.kill(t, victim[0])
			l.holds(t, fmt.Sprintf("round %d, %s was killed", round, victim[0]), victim[1], senders)
			more()
			l.serve(t, victim[0]).says(t, "audit server is ready")
			l.holds(t, fmt.Sprintf("round %d, %s is back", round, victim[0]), victim[0], senders)
		}
	}
	close(stop)
	group.Wait()
	for _, name := range []string{"a", "b"} {
		l.holds(t, "at the end", name, senders)
	}
	for _, s := range senders {
		if s.acked.Load() != s.made.Load() || s.made.Load() == 0 {
			t.Errorf("%s: %d of %d acknowledged", s.proxy, s.acked.Load(), s.made.Load())
		}
	}
	l.notForOthers(t)
}

// notForOthers tries to hand in copies as a controller.
func (l *pairLab) notForOthers(t *testing.T) {
	own, err := secrets.New(secrets.Options{Folder: t.TempDir(), CARootFile: l.root(), TokenFile: l.token(t, "sallyport"), Namespace: "istio-system", ServiceAccount: "sallyport"})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := grpc.NewClient(l.address(15012), own.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { own.Run(ctx, ca); close(done) }()
	defer func() { end(); <-done; _ = ca.Close() }()
	upEventually(t, "a certificate", func() error { _, err := own.Certificate(); return err })
	conn, err := grpc.NewClient(l.address(15019), grpc.WithTransportCredentials(credentials.NewTLS(l.client(own))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := ingest.OpenCopies(ctx, conn); err == nil || !strings.Contains(err.Error(), "is no server of this log") {
		t.Errorf("a controller hands in copies: %v", err)
	}
}

// TestWrongPairs: calls that cannot work say which flag is wrong.
func TestWrongPairs(t *testing.T) {
	for name, tt := range map[string]struct {
		both, own, tls, want string
	}{
		"one":         {"a=h:1", "a", ":1", "it has 1 servers"},
		"three":       {"a=h:1,b=h:2,c=h:3", "a", ":1", "it has 3 servers"},
		"no port":     {"a=h,b=h:2", "a", ":1", `"a=h" is not NAME=HOST:PORT`},
		"another":     {"a=h:1,b=h:2", "c", ":1", `neither is --pair-name, "c"`},
		"alike":       {"a=h:1,a=h:2", "a", ":1", "both are called a"},
		"nobody":      {"a=h:1,b=h:2", "a", "", "--tls-addr, which is missing"},
		"right":       {"a=h:1,b=h:2", "b", ":1", ""},
		"not at all":  {"", "", "", ""},
		"no own name": {"a=h:1,b=h:2", "", ":1", "neither is --pair-name"},
	} {
		t.Run(name, func(t *testing.T) {
			f := pairFlags{name: tt.own}
			if tt.both != "" {
				f.both = strings.Split(tt.both, ",")
			}
			err := f.check(&auditPorts{tls: tt.tls})
			if tt.want == "" {
				if err != nil || f.standsBy != (tt.own == "b") {
					t.Errorf("%v, stands by %v", err, f.standsBy)
				}
				return
			}
			var usage program.UsageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: want %q", err, tt.want)
			}
		})
	}
}
