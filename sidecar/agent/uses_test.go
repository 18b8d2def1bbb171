package agent

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/sidecar/tunnels"
	"github.com/sallyport/sallyport/xds/wire"
)

// told is a reader that reads the same records of each message.
type told []record.Record

func (t told) Records(string) ([]record.Record, error) { return t, nil }

// TestRecordsAreUses: what Envoy's log names was used, as the tables of the proxy know it.
func TestRecordsAreUses(t *testing.T) {
	records := told{
		{Host: "a.test", Port: 443}, {Host: "2001:2::1", Port: 80}, {Host: "10.0.0.1", Port: 25}, {Host: "in.test", Port: 80, Reporter: record.ReporterDestination}, {Class: record.Gap},
	}
	for exit, want := range map[bool]string{true: "a.test:443 [2001:2::1]:80 10.0.0.1:25", false: "a.test [2001:2::1] 10.0.0.1"} {
		var used []string
		log := useLog{LogReader: records, exit: exit, used: func(table, host string) { used = append(used, table+host) }}
		if got, err := log.Records(""); err != nil || len(got) != len(records) {
			t.Fatalf("%d records, %v", len(got), err)
		}
		if got := strings.Join(used, " "); got != want {
			t.Errorf("at an exit (%t) used are %q, want %q", exit, got, want)
		}
	}
}

// loopback is a kernel in which all connections are found.
type loopback struct{ tunnels.Own }

func (loopback) Find(string, netip.AddrPort, netip.AddrPort) (sockdiag.Connection, error) {
	return sockdiag.Connection{}, nil
}

// TestWhatIsOpenIsInUse: what is open is in use by the name that its table knows it by.
func TestWhatIsOpenIsInUse(t *testing.T) {
	at := netip.MustParseAddrPort("10.0.0.1:40000")
	for role, want := range map[string]string{bootstrap.Router: "a.test:443 b.test:80", bootstrap.Sidecar: "a.test b.test c.test"} {
		a := &agent{cfg: Config{Proxy: bootstrap.Options{Role: role}}, tunnels: tunnels.New(tunnels.Config{Log: slog.New(slog.DiscardHandler), Most: 10, MostRequests: 10, Kernel: loopback{}})}
		a.tunnels.Begin(envoylog.Tunnel{Question: envoylog.Question{Kind: wire.KindTLS, Authority: "a.test:443"}, Local: at, Client: at, Began: time.Unix(1, 0)})
		of := envoylog.Tunnel{Question: envoylog.Question{Kind: wire.KindHTTP, Authority: "b.test:80", Registered: "c.test"}, Began: time.Unix(1, 0)}
		done, taken := a.tunnels.UnderWay(of, func(string) error { return nil })
		if !taken {
			t.Fatal("a request is not taken note of")
		}
		var open []string
		each := func(table, host string) { open = append(open, table+host) }
		a.openHosts(each)
		if slices.Sort(open); strings.Join(open, " ") != want {
			t.Errorf("%s: open are %q, want %q", role, open, want)
		}
		done()
		open = nil
		if a.openHosts(each); len(open) == 0 || slices.Contains(open, "c.test") {
			t.Errorf("%s: when a request has ended, open are %q", role, open)
		}
	}
}
