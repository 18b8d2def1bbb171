package presence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The service is gRPC without generated code: a stream of messages (BytesValue holding JSON), answered by an empty one when its list counts. It is a stream since
// who may hand in records is judged by streams.
const (
	serviceName = "sallyport.audit.v1.Presence"
	method      = "/" + serviceName + "/Tell"
	perMessage  = 5_000 // proxies
)

// message is a part of a list.
type message struct {
	Controller string  `json:"controller"`
	Proxies    []Proxy `json:"proxies"`
}

var tell = grpc.StreamDesc{StreamName: "Tell", ClientStreams: true, Handler: func(s any, stream grpc.ServerStream) error { return s.(taker).take(stream) }}

type taker interface {
	take(stream grpc.ServerStream) error
}

var serviceDesc = grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*taker)(nil), Streams: []grpc.StreamDesc{tell}, Metadata: "sallyport/audit/v1"}

// Tell tells a server which proxies are connected to a controller, all of them.
func Tell(ctx context.Context, conn grpc.ClientConnInterface, controller string, proxies []Proxy) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &tell, method)
	if err != nil {
		return fmt.Errorf("audit presence: %w", err)
	}
	for first := true; first || len(proxies) > 0; first = false {
		n := min(len(proxies), perMessage)
		raw, err := json.Marshal(message{controller, proxies[:n]})
		if err != nil {
			return fmt.Errorf("audit presence: %w", err)
		}
		if err := stream.SendMsg(wrapperspb.Bytes(raw)); err != nil && !errors.Is(err, io.EOF) { // the answer knows why
			return fmt.Errorf("audit presence: %w", err)
		}
		proxies = proxies[n:]
	}
	if err := stream.CloseSend(); err != nil {
		return fmt.Errorf("audit presence: %w", err)
	}
	if err := stream.RecvMsg(&wrapperspb.BytesValue{}); err != nil {
		return fmt.Errorf("audit presence: %w", err)
	}
	return nil
}

// Service takes what controllers tell.
type Service struct {
	register *Register
	// on, if set, is told the same: the other server of a pair, which nobody told.
	on func(ctx context.Context, controller string, proxies []Proxy)
}

// NewService makes the service of a register. on may be nil.
func NewService(r *Register, on func(ctx context.Context, controller string, proxies []Proxy)) *Service {
	return &Service{r, on}
}

// Register offers the service on a gRPC server.
func (s *Service) Register(to grpc.ServiceRegistrar) { to.RegisterService(&serviceDesc, s) }

// take reads a list to its end, and then it counts.
func (s *Service) take(stream grpc.ServerStream) error {
	var controller string
	var proxies []Proxy
	for {
		var in wrapperspb.BytesValue
		err := stream.RecvMsg(&in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(in.Value, &m); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		if !valid(m.Controller) || controller != "" && m.Controller != controller {
			return status.Error(codes.InvalidArgument, "field controller: who tells, the same in all messages")
		}
		controller = m.Controller
		for _, p := range m.Proxies {
			if !valid(p.ID) {
				return status.Errorf(codes.InvalidArgument, "field proxies: %.80q is no node id", p.ID)
			}
		}
		if proxies = append(proxies, m.Proxies...); len(proxies) > maxProxies {
			return status.Errorf(codes.ResourceExhausted, "a controller tells of %d proxies at most", maxProxies)
		}
	}
	if controller == "" {
		return status.Error(codes.InvalidArgument, "field controller: it is missing")
	}
	if s.register.full(controller) {
		return status.Errorf(codes.ResourceExhausted, "%d controllers tell at most", maxControllers)
	}
	s.register.tell(controller, proxies)
	if s.on != nil {
		s.on(stream.Context(), controller, proxies)
	}
	return stream.SendMsg(wrapperspb.Bytes(nil))
}
