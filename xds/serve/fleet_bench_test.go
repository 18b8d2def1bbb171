package serve_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/resource"
	nodewire "github.com/sallyport/sallyport/xds/wire"
)

// bareClient is a delta stream on a connection of its own, without goroutines and with next to no work: what a benchmark measures beside it is the server.
type bareClient struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	rest []byte // of messages, read and not used yet
}

func (p *plane) bare() *bareClient {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	c := &bareClient{t: p.t, conn: conn, in: bufio.NewReaderSize(conn, 2<<10)}
	var out, headers bytes.Buffer
	out.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&out, nil)
	const most = 1<<31 - 1
	c.must(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: most}))
	c.must(f.WriteWindowUpdate(0, most-65535))
	encoder := hpack.NewEncoder(&headers)
	for _, h := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: discovery.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName},
		{Name: ":authority", Value: "controller"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		c.must(encoder.WriteField(h))
	}
	c.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true}))
	c.write(out.Bytes())
	return c
}

func (c *bareClient) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *bareClient) write(b []byte) {
	c.t.Helper()
	_, err := c.conn.Write(b)
	c.must(err)
}

// send sends a request.
func (c *bareClient) send(r *discovery.DeltaDiscoveryRequest) {
	c.t.Helper()
	message, err := proto.Marshal(r)
	c.must(err)
	c.sendBytes(message)
}

func (c *bareClient) sendBytes(message []byte) {
	c.t.Helper()
	length := 5 + len(message)
	out := []byte{byte(length >> 16), byte(length >> 8), byte(length), byte(http2.FrameData), 0, 0, 0, 0, 1, 0}
	c.write(append(binary.BigEndian.AppendUint32(out, uint32(len(message))), message...))
}

// take receives a response and acknowledges it.
func (c *bareClient) take() {
	c.t.Helper()
	message := c.next()
	var ack []byte
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if n < 0 || size < 0 {
			c.t.Fatal("this is no response")
		}
		if to, ok := inAcknowledgement[number]; ok {
			value, _ := protowire.ConsumeBytes(message[n:])
			ack = protowire.AppendBytes(protowire.AppendTag(ack, to, protowire.BytesType), value)
		}
		message = message[n+size:]
	}
	c.sendBytes(ack)
}

// inAcknowledgement are the fields of a response that an acknowledgement has, too, by their numbers in both: its type and its nonce.
var inAcknowledgement = map[protowire.Number]protowire.Number{4: 2, 5: 6}

// next receives a message.
func (c *bareClient) next() []byte {
	c.t.Helper()
	for len(c.rest) < 5 || len(c.rest) < 5+int(binary.BigEndian.Uint32(c.rest[1:])) {
		var head [9]byte
		_, err := io.ReadFull(c.in, head[:])
		c.must(err)
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		_, err = io.ReadFull(c.in, payload)
		c.must(err)
		if http2.FrameType(head[3]) == http2.FrameData {
			c.rest = append(c.rest, payload...)
		}
	}
	end := 5 + int(binary.BigEndian.Uint32(c.rest[1:]))
	message := bytes.Clone(c.rest[5:end])
	c.rest = append(c.rest[:0], c.rest[end:]...)
	return message
}

// BenchmarkFleet publishes a new ServiceEntry to 300 sidecars, until all have acknowledged its row and its name, and takes it back: what of that is the server's, for
// one of them and one publication, and what their goroutines have for stacks, in KiB, when memory has been given back.
func BenchmarkFleet(b *testing.B) {
	runtime.LockOSThread() // of the clients
	defer runtime.UnlockOSThread()
	const sidecars = 300
	p := startPlane(b, "api.example.com")
	var clients []*bareClient
	without := stacks()
	for i := range sidecars {
		c := p.bare()
		node := pod(fmt.Sprintf("pod-%d", i), "ns")
		node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{nodewire.NamesWaitMetadata: structpb.NewStringValue("true")}}
		for _, ask := range []struct {
			node *core.Node
			t    resource.Type
		}{{node, resource.VirtualHost}, {nil, resource.Name}} {
			c.send(&discovery.DeltaDiscoveryRequest{Node: ask.node, TypeUrl: ask.t.URL()})
			c.take()
		}
		clients = append(clients, c)
	}
	both := func() {
		for _, c := range clients {
			c.take()
			c.take()
		}
	}
	change := p.entry("new.example.com", "*")
	all, own := cpu(), usage(rusageThread)
	b.ReportAllocs()
	for b.Loop() {
		p.publish(change)
		both()
		p.publish(config.Change{Key: change.Key})
		both()
	}
	server := cpu() - all - (usage(rusageThread) - own)
	b.ReportMetric(float64(server.Nanoseconds())/1000/float64(b.N)/(2*sidecars), "server-µs/stream")
	b.ReportMetric(float64(stacks()-without)/1024/sidecars, "stack-KiB/stream")
}

// stacks is how many bytes all stacks have when memory was given back.
func stacks() uint64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}

// rusageThread asks for what a thread has used (getrusage(2)).
const rusageThread = 1

func usage(who int) time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(who, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
