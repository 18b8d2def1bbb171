package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
	"github.com/sallyport/sallyport/xds/wire"
)

// The processes around the agent whose cost is measured: Envoy and the store, in one.
const besideDir = "SALLYPORT_AGENT_COST_DIR"

const (
	entriesAMessage = 26 // what Envoy puts into one: 16 KiB
	besideGC        = 40 // cmd/sallyport-agent's
)

// BenchmarkRecord is what a record costs the agent, in processor time of its process: taken from Envoy, put on the spool,
// shipped, acknowledged. Envoy and the store are another process.
func BenchmarkRecord(b *testing.B) {
	b.Run("as fast as it goes", func(b *testing.B) { benchmarkRecord(b, 2000, 0) })
	b.Run("5200 a second", func(b *testing.B) { benchmarkRecord(b, 400, 5*time.Millisecond) })
}

// benchmarkRecord has Envoy send so many messages at a time, one in each interval.
func benchmarkRecord(b *testing.B, messages int, every time.Duration) {
	defer debug.SetGCPercent(debug.SetGCPercent(besideGC))
	dir := b.TempDir()
	s, err := spool.Open(filepath.Join(dir, "spool"), spool.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	socket, err := net.Listen("unix", filepath.Join(dir, "agent"))
	if err != nil {
		b.Fatal(err)
	}
	node := envoylog.Node{ID: "router~10.77.0.20~gateway-1.istio-system~istio-system.svc.cluster.local"}
	server := newServer()
	accesslogv3.RegisterAccessLogServiceServer(server, &accessLogs{
		log: slog.New(slog.DiscardHandler), spool: s, records: func() LogReader { return envoylog.NewReader(node) },
	})
	go func() { _ = server.Serve(socket) }()
	defer server.Stop()

	beside := exec.Command(os.Args[0])
	beside.Env = append(os.Environ(), besideDir+"="+dir)
	beside.Stderr = os.Stderr
	orders, err := beside.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	answers, err := beside.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := beside.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = orders.Close(); _ = beside.Wait() }()
	var ready string
	if _, err := fmt.Fscanln(answers, &ready); err != nil {
		b.Fatal(err)
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "store"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() { _ = ingest.Ship(ctx, conn, s, nil) }()

	records := 0
	before := processorTime(b)
	for b.Loop() {
		if _, err := fmt.Fprintln(orders, messages, every.Nanoseconds()); err != nil {
			b.Fatal(err)
		}
		records += messages * entriesAMessage
		var stored int
		if _, err := fmt.Fscanln(answers, &stored); err != nil || stored != records {
			b.Fatalf("%d records were stored, want %d, %v", stored, records, err)
		}
	}
	used := processorTime(b) - before
	b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(records), "µs-cpu/record")
	b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counting is a store that keeps nothing.
type counting struct {
	stored int
	more   chan int
}

func (c *counting) Store(_ context.Context, records []record.Record) error {
	c.stored += len(records)
	c.more <- c.stored
	return nil
}

// standBeside is Envoy and the store: for each pair of numbers that it reads it sends so many messages, one in so many nanoseconds, and
// says how many records have been stored once those of all messages were.
func standBeside(dir string) error {
	sink := &counting{more: make(chan int, 1000)}
	socket, err := net.Listen("unix", filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	ingest.NewServer(sink, nil, nil).Register(server)
	go func() { _ = server.Serve(socket) }()
	defer server.Stop()

	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "agent"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	stream, err := accesslogv3.NewAccessLogServiceClient(conn).StreamAccessLogs(context.Background())
	if err != nil {
		return err
	}
	message, err := envoysMessage("testdata/gateway-http.json")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for sent := 0; ; {
		var messages, every int64
		if _, err := fmt.Scanln(&messages, &every); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		pace := time.NewTicker(time.Duration(max(every, 1)))
		for range messages {
			if every > 0 {
				<-pace.C
			}
			for i, e := range message.GetHttpLogs().LogEntry {
				e.Request.Path = "/a/path/" + strconv.Itoa(sent+i) + "?with=query"
				e.CommonProperties.StartTime.Nanos = int32(sent + i)
			}
			if err := stream.Send(message); err != nil {
				return err
			}
			sent += entriesAMessage
			message.Identifier = nil
		}
		pace.Stop()
		for stored := range sink.more {
			if stored == sent {
				fmt.Println(stored)
				break
			}
		}
	}
}

// envoysMessage is one as Envoy fills it, with the entry in a file.
func envoysMessage(file string) (*accesslogv3.StreamAccessLogsMessage, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	entry := new(datav3.HTTPAccessLogEntry)
	if err := protojson.Unmarshal(text, entry); err != nil {
		return nil, err
	}
	entry.Request.UserAgent = strings.Repeat("x", 30)
	all := &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{}
	for range entriesAMessage {
		all.LogEntry = append(all.LogEntry, proto.Clone(entry).(*datav3.HTTPAccessLogEntry))
	}
	return &accesslogv3.StreamAccessLogsMessage{
		Identifier: &accesslogv3.StreamAccessLogsMessage_Identifier{LogName: string(wire.GatewayHTTP)},
		LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{HttpLogs: all},
	}, nil
}
