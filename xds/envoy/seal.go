package envoy

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/resource"
)

// SealCluster is Seal for a cluster, by its own name.
func SealCluster(c *clusterv3.Cluster) *resource.Resource { return Seal(resource.Cluster, c.Name, c) }

// SealExtension is the configuration of an extension that is asked for by ECDS, by its name.
func SealExtension(name string, config proto.Message) *resource.Resource {
	return Seal(resource.Extension, name, &corev3.TypedExtensionConfig{Name: name, TypedConfig: ToAny(config)})
}

// Seal marshals a message for good. Listeners and clusters are bounded, whoever made them.
func Seal(t resource.Type, name string, m proto.Message) *resource.Resource {
	switch m := m.(type) {
	case *listenerv3.Listener:
		bounded(m)
	case *clusterv3.Cluster:
		boundedCluster(m)
	}
	return resource.Seal(t, name, m)
}

// stable makes equal bytes of equal messages.
var stable = proto.MarshalOptions{Deterministic: true}

// ToAny wraps a message that is configuration inside another.
func ToAny(m proto.Message) *anypb.Any {
	body, err := stable.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("translate: %T does not marshal: %v", m, err))
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: body}
}

// What one connection or stream may hold while its other end does not read, in bytes. Envoy's own values are 1 MiB and
// 16 MiB: docs/adr/0016-bounded.md.
const (
	connectionBuffer = 64 << 10  // of a socket, in each direction
	streamWindow     = 256 << 10 // of an HTTP/2 stream in the mesh; a round trip carries no more
	outsideWindow    = 512 << 10 // of one to a server outside, which is farther away
	connectionWindow = 4 << 20   // of an HTTP/2 connection, which blocked streams do not use up

	// streamsEach is how many streams an HTTP/2 connection may have at a time. Who has more to ask opens another one.
	streamsEach = 1024

	// streamsOutside is the same of a client from outside: each of them may have a head of 96 KiB, which no window holds back.
	// Envoy's own advice for edges: https://www.envoyproxy.io/docs/envoy/v1.40.0/configuration/best_practices/edge
	streamsOutside = 100
)

// How long a client may be silent.
const (
	// patience is for the handshake, for a client's first bytes where the client must speak first, and for the head of a
	// request.
	patience = 10 * time.Second

	// HelloPatience is for a ClientHello at a gateway, which comes in one go.
	HelloPatience = 5 * time.Second

	// restTime is how long a gateway keeps a connection of the mesh that carries nothing. It cannot tell one that never
	// carried anything from one that rests; who comes back shakes hands anew. Sidecars end theirs a little sooner.
	restTime        = 10 * time.Second
	sidecarRestTime = 8 * time.Second

	// stuckTime is how long somebody may take nothing of what waits for him until he is cut off. A client that has gone while
	// its sidecar could not read from it is not seen otherwise, nor is a machine that has gone.
	stuckTime = 5 * time.Minute

	// drainTime is between "no more requests" and the end of an HTTP/2 connection that has rested.
	drainTime = 3 * time.Second
)

// bounded limits what a listener's connections hold, and how long. Those inside of Envoy end with the ones that they are
// between.
func bounded(l *listenerv3.Listener) {
	l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(connectionBuffer)
	if l.GetInternalListener() == nil && l.UdpListenerConfig == nil && (l.BindToPort == nil || l.BindToPort.Value) {
		l.SocketOptions = append(l.SocketOptions, resetStuck())
	}
}

// boundedCluster limits what a cluster's connections hold, and how long.
func boundedCluster(c *clusterv3.Cluster) {
	c.PerConnectionBufferLimitBytes = wrapperspb.UInt32(connectionBuffer)
	if c.GetTransportSocket().GetName() == internalSocket {
		return
	}
	if c.UpstreamBindConfig == nil {
		c.UpstreamBindConfig = &corev3.BindConfig{}
	}
	c.UpstreamBindConfig.SocketOptions = append(c.UpstreamBindConfig.SocketOptions, resetStuck())
}

// resetStuck makes the kernel reset a connection whose other end takes nothing of what waits for it: TCP_USER_TIMEOUT of
// tcp(7), which counts from when the other end's window closed, and again once it has opened. Envoy has a time
// limit of its own for full buffers, but ends such a connection cleanly: who reads on takes half a file for a whole one.
func resetStuck() *corev3.SocketOption {
	return &corev3.SocketOption{
		Description: "TCP_USER_TIMEOUT", Level: ipprotoTCP, Name: tcpUserTimeout, State: corev3.SocketOption_STATE_PREBIND,
		Value: &corev3.SocketOption_IntValue{IntValue: stuckTime.Milliseconds()},
	}
}

// closeWhenWritten is a connection manager's delayed_close_timeout: none. With Envoy's own second, the end of an upgrade comes a second late, and a
// client that has taken nothing for a second when its server has ended is given a clean end in place of the rest. Who takes nothing at all is
// cut off by resetStuck (docs/adr/0107-a-connection-ends-when-all-is-written.md).
func closeWhenWritten() *durationpb.Duration { return durationpb.New(0) }

// Linux's numbers, from linux/in.h and linux/tcp.h.
const (
	ipprotoTCP     = 6
	tcpUserTimeout = 18
)

// outsideHTTP2 limits what a server outside may send ahead.
func outsideHTTP2() *corev3.Http2ProtocolOptions {
	options := http2Limits()
	options.InitialStreamWindowSize = wrapperspb.UInt32(outsideWindow)
	return options
}

// http2Limits are for both sides of HTTP/2 in the mesh.
func http2Limits() *corev3.Http2ProtocolOptions {
	return &corev3.Http2ProtocolOptions{
		MaxConcurrentStreams:        wrapperspb.UInt32(streamsEach),
		InitialStreamWindowSize:     wrapperspb.UInt32(streamWindow),
		InitialConnectionWindowSize: wrapperspb.UInt32(connectionWindow),
	}
}

// edgeHTTP2 are for clients from outside.
func edgeHTTP2() *corev3.Http2ProtocolOptions {
	options := http2Limits()
	options.MaxConcurrentStreams = wrapperspb.UInt32(streamsOutside)
	return options
}

// WithHandshakeTimeout ends connections that have not shaken hands in time.
func WithHandshakeTimeout(c *listenerv3.FilterChain) *listenerv3.FilterChain {
	c.TransportSocketConnectTimeout = durationpb.New(patience)
	return c
}

// WithFirstByteTimeout ends connections whose first bytes, which the listener's filters want to read, do not come in time.
func WithFirstByteTimeout(l *listenerv3.Listener) *listenerv3.Listener {
	l.ListenerFiltersTimeout = durationpb.New(patience)
	l.ContinueOnListenerFiltersTimeout = false
	return l
}
