package story

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// withoutMesh is a scene with an app and an outside but nothing between, so that the checks' own eyes can be tested.
func withoutMesh(t *testing.T) *Scene {
	t.Helper()
	if err := world.CanNamespace(); err != nil {
		t.Skip(err)
	}
	run, err := world.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	w, err := world.New(run)
	if err != nil {
		t.Fatal(err)
	}
	s := &Scene{Run: run, World: w}
	s.client = func(ctx context.Context, argv ...string) *exec.Cmd { return w.App.Command(ctx, world.AppUID, argv...) }
	if err := s.startOutside(w.Outside, world.OutsideAddrs, 80, 443, netip.AddrPortFrom(world.NameServerAddr, 53)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.caFile(), s.Outside.CA.PEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatTheAppAndTheOutsideSee(t *testing.T) {
	s := withoutMesh(t)
	for scheme, sni := range map[string]string{"http": "", "https": externalHost} {
		path := "/" + token()
		reply, err := s.get(t.Context(), s.url(scheme, externalHost, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := reply.must(); err != nil {
			t.Error(err)
		}
		seen, err := s.sawOnce(path)
		if err != nil {
			t.Fatal(err)
		}
		if seen.Scheme != scheme || seen.SNI != sni || seen.Peer.Addr() != world.AppAddr {
			t.Errorf("saw %s", seen)
		}
		if s.cameFrom(seen, world.GatewayAddr) == nil {
			t.Error("a connection from the pod passes for one from the gateway")
		}
	}
	s.Outside.Set(externalHost, ttl, s.moved)
	if _, err := s.reaches(t.Context(), s.moved); err != nil {
		t.Error(err)
	}
	reply, err := s.get(t.Context(), "https://nobody.test/")
	if err != nil {
		t.Fatal(err)
	}
	if reply.OK() || reply.Exit != 6 || reply.Error == "" {
		t.Errorf("a name that does not exist: %+v", reply)
	}
}

func TestTrafficNotices(t *testing.T) {
	s := withoutMesh(t)
	open, err := s.openStream(t.Context(), "https", externalHost)
	if err != nil {
		t.Fatal(err)
	}
	defer open.close()
	traffic := s.startProbe(t.Context(), externalHost)
	if err := open.flows(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Outside.Servers.Close(); err != nil {
		t.Error(err)
	}
	if open.flows(t.Context()) == nil {
		t.Error("an open connection that broke was not noticed")
	}
	asked := traffic.requests()
	if err := world.Within(t.Context(), time.Minute, func() error {
		if traffic.requests() < asked+2 {
			return errors.New("the probe stopped asking")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if requests, err := traffic.finish(); err == nil || requests == 0 {
		t.Errorf("%d requests, failures unnoticed", requests)
	}
}

func TestWantFits(t *testing.T) {
	now := time.Now()
	r := record.Record{
		Time: now, Host: externalHost, Verdict: record.Allowed, Path: record.PathGateway, URLPath: "/x", Status: 200,
		Reporter: record.ReporterGateway, Cluster: "outbound|443||external.com", Workload: record.Workload{Principal: appPrincipal},
	}
	w := want{
		host: externalHost, urlPath: "/x", status: 200, verdict: record.Allowed, path: record.PathGateway,
		reporter: record.ReporterGateway, cluster: "outbound|443|", from: appPrincipal, after: now,
	}
	if !w.fits(r) {
		t.Error("the record wanted does not fit")
	}
	for name, change := range map[string]func(*record.Record){
		"another host": func(r *record.Record) { r.Host = secondHost },
		"denied":       func(r *record.Record) { r.Verdict = record.Denied },
		"other path":   func(r *record.Record) { r.Path = record.PathPassthrough },
		"earlier":      func(r *record.Record) { r.Time = now.Add(-time.Second) },
		"nobody's":     func(r *record.Record) { r.Workload.Principal = "" },
		"other status": func(r *record.Record) { r.Status = 503 },
	} {
		changed := r
		change(&changed)
		if w.fits(changed) {
			t.Errorf("%s: fits", name)
		}
	}
}

func TestOutsideOnLoopbackNeedsNoRoot(t *testing.T) {
	run, err := world.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = run.Close() }()
	s := &Scene{Run: run}
	if err := s.startOutside(outside.Loopback{}, loopbackAddrs, 0, 0, netip.AddrPortFrom(loopbackAddrs[0], 0)); err != nil {
		t.Fatal(err)
	}
	if got := s.url("https", externalHost, "/"); got == "https://external.com/" {
		t.Errorf("%s lacks the port", got)
	}
}
