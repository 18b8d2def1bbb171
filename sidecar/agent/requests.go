package agent

import (
	"errors"
	"io"
	"net/url"
	"sync"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/metadata"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/sidecar/tunnels"
	"github.com/sallyport/sallyport/xds/wire"
)

// requests takes note of requests that are under way, each on a stream of its own that is open for as long, and ends those that are denied
// (docs/adr/0108-requests-under-way-end.md).
type requests struct {
	extprocv3.UnimplementedExternalProcessorServer
	open *tunnels.Table
	read func(said func(header string) string) envoylog.Tunnel // what Envoy tells
}

// Process implements extprocv3.ExternalProcessorServer. Envoy waits for an answer to each of its messages; it is always that the request goes on.
func (r *requests) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	said, _ := metadata.FromIncomingContext(stream.Context())
	one := func(key string) string {
		if values := said.Get(key); len(values) == 1 {
			return values[0]
		}
		return ""
	}
	s := &request{stream: stream}
	defer s.over()
	if !answeredBefore(said.Get(wire.HeaderUnderWay)) {
		of := r.read(one)
		if of.Nowhere {
			return s.send(answered(typev3.StatusCode_Forbidden, noTunnel, wire.NoTunnelDetails))
		}
		done, taken := r.open.UnderWay(of, s.cut)
		if !taken {
			return s.send(answered(typev3.StatusCode_ServiceUnavailable, "sallyport: nobody could keep an eye on this request: too much is under way, or its host or path is too long\n", wire.TooManyDetails))
		}
		defer done()
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := s.send(goOn(m)); err != nil {
			return err
		}
	}
}

// noTunnel answers a CONNECT that goes nowhere. Its row says so, too, and why, but who tells of it is asked first.
const noTunnel = "sallyport: no CONNECT goes there: the port is registered as plain HTTP, so send it requests, or it is closed, or none of its routes takes connections\n"

// answeredBefore says, by what Envoy says that a request came as, that it did not hand it on to where that is noted: one of the filters before has answered it, with what an
// authorizer said, say. Nothing of it has left, and nothing is to be ended. What was noted is never nothing: it has a method and a path.
func answeredBefore(as []string) bool { return len(as) == 0 || len(as) == 1 && as[0] == "-" }

// goOn answers a message.
func goOn(m *extprocv3.ProcessingRequest) *extprocv3.ProcessingResponse {
	out := &extprocv3.ProcessingResponse{}
	switch m.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		out.Response = &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}}
	case *extprocv3.ProcessingRequest_RequestBody:
		out.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		out.Response = &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		out.Response = &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}}
	}
	return out
}

// answered ends a request: before its answer has begun by this one, else by a reset.
func answered(status typev3.StatusCode, body, details string) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocv3.ImmediateResponse{
		Status: &typev3.HttpStatus{Code: status}, Body: []byte(body), Details: details,
	}}}
}

// request is one that is under way.
type request struct {
	mu     sync.Mutex
	stream extprocv3.ExternalProcessor_ProcessServer // nil when it is over
}

func (s *request) send(m *extprocv3.ProcessingResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil {
		return sockdiag.ErrGone
	}
	return s.stream.Send(m)
}

func (s *request) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = nil
}

// cut ends it, and has its record say why.
func (s *request) cut(why string) error {
	return s.send(answered(typev3.StatusCode_Forbidden, "sallyport: this is not allowed any more\n", wire.EndedDetails+url.QueryEscape(why)))
}
