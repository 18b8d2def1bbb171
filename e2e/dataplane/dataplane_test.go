package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// TestMain lets the test program be client and server inside the namespaces, as the command does.
func TestMain(m *testing.M) {
	if done, err := role(context.Background(), os.Args[1:]); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// staged sets the stage.
func staged(t *testing.T, alone bool) *stage {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run `make test` as root for this part")
	}
	if testing.Short() {
		t.Skip("starts the real programs, which takes its time: not with -short")
	}
	st, err := setStage(t.Context(), true, alone)
	t.Cleanup(func() {
		if t.Failed() {
			for _, run := range st.runs {
				if kept, err := run.SaveLogs(); err == nil {
					t.Logf("the programs' logs: %s", kept)
				}
			}
		}
		if err := st.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestPolicies: requests with policies and without are measured side by side, none fails, and the table says what each costs.
func TestPolicies(t *testing.T) {
	st := staged(t, true)
	all, err := comparePolicies(t.Context(), st.ours, plan{
		hosts: []int{20}, loads: loads[:4], rounds: 2, clients: 4, warm: 50 * time.Millisecond, duration: 200 * time.Millisecond, progress: io.Discard,
	}, 6)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 4 {
		t.Fatalf("%d loads", len(all))
	}
	used := 0.0 // by all loads: the kernel counts by the hundredth of a second, and a short round on a busy machine may take less
	for _, c := range all {
		if c.Failures > 0 || len(c.With) != 2 || len(c.Without) != 2 {
			t.Errorf("%s: %d requests failed, the first: %s; %d and %d rounds", c.Load, c.Failures, c.First, len(c.With), len(c.Without))
		}
		for _, s := range append(c.With, c.Without...) {
			used += atGateway(s)
		}
	}
	if used <= 0 {
		t.Error("no processor time of the gateway's was counted")
	}
	if text := policiesTable(all); strings.Count(text, "| 20 | 6 |") != 4 {
		t.Error(text)
	}
}

// TestDataPlane: both sides carry each kind of traffic, the programmed one fails no request of thousands of short
// connections, and it carries also what an app resolved elsewhere.
func TestDataPlane(t *testing.T) {
	st := staged(t, false)
	all, err := compare(t.Context(), st.ours, st.written, plan{
		hosts: []int{20}, loads: loads, rounds: 1, clients: 8, warm: 50 * time.Millisecond, duration: 200 * time.Millisecond, progress: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Failures > 0 || p.Written[0].Failures > 0 {
			t.Errorf("%s: %d requests failed, the first: %s; by hand %d", p.Load, p.Failures, p.First, p.Written[0].Failures)
		}
	}
	t.Run("churn", func(t *testing.T) { churn(t, st.ours) })
	t.Run("resolved elsewhere", func(t *testing.T) { elsewhere(t, st.ours) })
}

// churn makes 2,000 connections, half of them TLS ones.
func churn(t *testing.T, ours *programmed) {
	for _, l := range loads {
		if l.Keep {
			continue
		}
		got, err := ours.round(t.Context(), order{traffic: l, Clients: 16, Duration: time.Minute, Requests: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if got.Requests+got.Failures != 1000 || got.Failures > 0 {
			t.Errorf("%s: %d requests, and %d that failed, the first: %s", l.Name, got.Requests, got.Failures, got.First)
		}
	}
}

// elsewhere connects to a registered host's real address, as an app does that asks another resolver or has the address
// written down: it leaves by the gateway all the same.
func elsewhere(t *testing.T, ours *programmed) {
	const name = "external.com" // the story's
	written := world.OutsideAddrs[0].String()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ours.scene.Outside.CA.PEM())
	for scheme, port := range map[string]string{"http": "80", "https": "443"} {
		client := http.Client{Timeout: exchangeLimit, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return ours.world.App.DialContext(ctx, network, net.JoinHostPort(written, port))
			},
		}}
		path := "/elsewhere-" + scheme
		resp, err := client.Get(scheme + "://" + name + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		seen := ours.scene.Outside.Sightings(path)
		if resp.StatusCode != http.StatusOK || len(seen) != 1 {
			t.Fatalf("%s: %s, seen %v", scheme, resp.Status, seen)
		}
		if s := seen[0]; s.Peer.Addr() != world.GatewayAddr || s.Scheme != "https" || s.SNI != name {
			t.Errorf("%s: the server saw %s, want TLS for %s from the gateway", scheme, s, name)
		}
	}
}

// TestAmbientFigures: what is measured of a node's proxy is measured, with few pods and short rounds, and nothing fails.
func TestAmbientFigures(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run `make test` as root for this part")
	}
	if testing.Short() {
		t.Skip("starts the real programs, which takes its time: not with -short")
	}
	self, programs, err := backstage()
	if err != nil {
		t.Fatal(err)
	}
	run, err := world.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if kept, err := run.SaveLogs(); err == nil {
				t.Logf("the programs' logs: %s", kept)
			}
		}
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	ours, err := newProgrammed(t.Context(), run, programs, self)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ours.ambient(t.Context(), plan{
		hosts: []int{20}, loads: loads, rounds: 1, clients: 8, warm: 50 * time.Millisecond, duration: 200 * time.Millisecond, progress: io.Discard,
	}, ambientPlan{pods: 6, sidecars: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(f.table())
	if f.served != 6 || len(f.added) != 3 || len(f.sidecar) != 1 || f.node[1].envoy == 0 || f.sidecar[0].sum() == 0 {
		t.Errorf("measured: %+v", f)
	}
	for _, p := range f.traffic {
		if p.Failures > 0 || p.Written[0].Failures > 0 {
			t.Errorf("%s: %d requests failed, the first: %s; of the sidecar's %d", p.Load, p.Failures, p.First, p.Written[0].Failures)
		}
	}
	if len(f.traffic) != 6 {
		t.Errorf("%d loads", len(f.traffic))
	}
	for busiest, want := range map[float64]string{0: "\u2713", 50: "(busy)"} {
		g := ambientFigures{busiest: atRest{percent: busiest}, served: leastPods}
		if !strings.Contains(g.table(), fmt.Sprintf("%d | %d | %s", leastPods, leastPods, want)) {
			t.Errorf("at %.0f %%: %s", busiest, g.table())
		}
	}
}
