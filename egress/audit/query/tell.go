package query

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const tellServiceName = "sallyport.audit.v1.Actions"

// told are the actions that a command may tell of.
var told = []string{actions.Approved, actions.Rejected, actions.Snoozed, actions.Applied}

// ErrNobodyToTell is of a log that no server keeps.
var ErrNobodyToTell = errors.New("no audit server is running on this log")

// Tell has the audit server record what somebody does by a command.
func Tell(ctx context.Context, s Source, r record.Record) error {
	to, ok := s.(remote)
	if !ok {
		return ErrNobodyToTell
	}
	return ask(ctx, to.conn, tellServiceName, "Tell", r, func([]byte) error { return nil })
}

// Told takes what commands tell of. Who may ask questions may tell: a record says that the caller's machine is all that vouches for the name.
type Told struct{ log *actions.Log }

// NewTold makes the service.
func NewTold(l *actions.Log) *Told { return &Told{l} }

// Register offers the service on a gRPC server.
func (t *Told) Register(to grpc.ServiceRegistrar) { to.RegisterService(&toldDesc, t) }

type taker interface {
	take(grpc.ServerStream) error
}

var toldDesc = grpc.ServiceDesc{
	ServiceName: tellServiceName,
	HandlerType: (*taker)(nil),
	Streams: []grpc.StreamDesc{
		{StreamName: "Tell", ServerStreams: true, Handler: func(s any, stream grpc.ServerStream) error { return s.(taker).take(stream) }},
	},
	Metadata: "sallyport/audit/v1",
}

func (t *Told) take(stream grpc.ServerStream) error {
	var said record.Record
	if err := receive(stream, &said); err != nil {
		return err
	}
	r, err := Commanded(said)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return t.log.Add(stream.Context(), r)
}

// Commanded is the record of what somebody did by a command: nothing else of what was said counts.
func Commanded(said record.Record) (record.Record, error) {
	if !slices.Contains(told, said.Action) || said.Actor == "" {
		return said, errors.New("it is approved, rejected, snoozed or applied, by somebody")
	}
	return record.Record{
		Time: time.Now(), Reporter: record.ReporterCommand, Actor: said.Actor, ActorBy: record.BySystem, Action: said.Action, Reason: said.Reason, URLPath: said.URLPath,
		Workload: record.Workload{Namespace: said.Workload.Namespace, ServiceAccount: said.Workload.ServiceAccount}, Host: said.Host, Port: said.Port,
	}, nil
}
