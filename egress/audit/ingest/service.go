package ingest

import "google.golang.org/grpc"

// The names of the gRPC service.
const (
	ServiceName = "sallyport.audit.v1.Ingest"
	shipMethod  = "/" + ServiceName + "/Ship"
)

// shipHandler is what a service implementation has: Server.
type shipHandler interface {
	ship(grpc.ServerStream) error
}

var shipStream = grpc.StreamDesc{
	StreamName:    "Ship",
	ServerStreams: true,
	ClientStreams: true,
	Handler:       func(srv any, stream grpc.ServerStream) error { return srv.(shipHandler).ship(stream) },
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: ServiceName,
	HandlerType: (*shipHandler)(nil),
	Streams:     []grpc.StreamDesc{shipStream},
	Metadata:    "sallyport/audit/v1",
}
