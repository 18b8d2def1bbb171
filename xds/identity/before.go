package identity

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// messageWithin is how long the one message of a call may take to come, from when its caller is known.
const messageWithin = 10 * time.Second

// Before registers services on a server whose stream interceptor is the Guard's so that it stands before their unary calls, too. gRPC reads the message of
// a unary call, and keeps what there is of it, before it asks an interceptor: anybody could have megabytes kept for each call by leaving out the last byte. So each such method is
// registered as one that streams its single answer, which is the same on the wire.
func Before(to grpc.ServiceRegistrar) grpc.ServiceRegistrar { return before{to} }

type before struct{ to grpc.ServiceRegistrar }

// RegisterService implements grpc.ServiceRegistrar.
func (b before) RegisterService(desc *grpc.ServiceDesc, service any) {
	out := *desc
	out.Methods = nil
	out.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
	for _, m := range desc.Methods {
		out.Streams = append(out.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: single(m), ServerStreams: true})
	}
	b.to.RegisterService(&out, service)
}

// single serves a unary method on a stream.
func single(m grpc.MethodDesc) grpc.StreamHandler {
	return func(service any, stream grpc.ServerStream) error {
		read := func(message any) error {
			return within(stream.Context(), messageWithin, func() error { return stream.RecvMsg(message) })
		}
		answer, err := m.Handler(service, stream.Context(), read, nil)
		if err != nil {
			return err
		}
		return stream.SendMsg(answer)
	}
}

// within waits so long for a read. One that takes longer ends with its stream, which the caller ends by returning.
func within(ctx context.Context, long time.Duration, read func() error) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- read() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
