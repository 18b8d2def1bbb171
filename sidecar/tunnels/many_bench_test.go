package tunnels

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/xds/wire"
)

// many is a kernel with every connection that it is asked for.
type many struct{ lab }

func (*many) Find(_ string, local, remote netip.AddrPort) (sockdiag.Connection, error) {
	return sockdiag.Connection{Local: local, Remote: remote, Cookie: uint64(remote.Port()) + 1}, nil
}

// openMany has 10,000 connections open: of so many clients in as many namespaces, to so many hosts.
func openMany(table *Table, clients, hosts int) {
	const connections = 10_000
	began := time.Now().Add(-time.Hour)
	for i := range connections {
		client := i % clients
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(client >> 8), byte(client)}), uint16(10_000+i/clients))
		table.Begin(envoylog.Tunnel{Local: gateway, Client: from, Began: began, Question: envoylog.Question{
			Kind: wire.KindTLS, Authority: fmt.Sprintf("host-%d.test:443", i/clients%hosts), From: from.Addr().String(), Subset: "default",
			Peer: fmt.Sprintf("spiffe://cluster.local/ns/team-%d/sa/app", client),
		}})
	}
}

// answering is a table that answers as Envoy does, in this process.
func answering(b *testing.B) *Asker {
	b.Helper()
	path := filepath.Join(b.TempDir(), "questions")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	body, err := proto.Marshal(&servicev3.RateLimitResponse{OverallCode: servicev3.RateLimitResponse_OK, DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"cluster": structpb.NewStringValue("outbound|443||a.test"), "route": structpb.NewStringValue("default"),
	}}})
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	asker := NewAsker(path)
	b.Cleanup(func() { asker.Close(); _ = server.Close() })
	return asker
}

// BenchmarkEditAmongMany: an edit that may be about all of 10,000 open connections, which it denies none of. What of the questions is told apart costs; who answers is told
// apart by the name: nobody ("table"), or somebody in this process, whose part is in the sum ("asked").
func BenchmarkEditAmongMany(b *testing.B) {
	for _, shape := range []struct {
		name           string
		clients, hosts int
	}{{"sidecar, 1 client, 50 hosts", 1, 50}, {"gateway, 200 clients, 50 hosts", 200, 50}} {
		for _, who := range []string{"table", "asked"} {
			b.Run(shape.name+"/"+who, func(b *testing.B) {
				ask := func(context.Context, envoylog.Question) (envoylog.Answer, error) { return envoylog.Answer{}, nil }
				if who == "asked" {
					ask = answering(b).Ask
				}
				before := inUse()
				k := &many{}
				table := New(Config{Log: slog.New(slog.DiscardHandler), Most: 20_000, Ask: ask, Kernel: k, Ender: k})
				openMany(table, shape.clients, shape.hosts)
				held := inUse() - before
				questions := table.Stats().Questions
				at := processor(b)
				for b.Loop() {
					table.plan.meant(&scope{all: true}, func(q *question) { table.plan.ask(q, time.Now()) })
					for len(table.plan.due) > 0 {
						table.look(b.Context())
					}
				}
				b.ReportMetric(float64(processor(b)-at)/float64(b.N)/1e6, "cpu-ms/op")
				b.ReportMetric(float64(questions), "questions")
				b.ReportMetric(float64(held)/10_000, "bytes/connection")
				runtime.KeepAlive(table)
			})
		}
	}
}

// processor is what this process has used of processors.
func processor(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// inUse is what is in memory, in bytes.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
