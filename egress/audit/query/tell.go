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

const actionsServiceName = "sallyport.audit.v1.Actions"

// tellable are the actions that a command may tell of.
var tellable = []string{actions.Approved, actions.Rejected, actions.Snoozed, actions.Applied}

// ErrNobodyToTell is of a log that no server keeps.
var ErrNobodyToTell = errors.New("no audit server is running on this log")

// Tell has the audit server record what somebody does by a command.
func Tell(ctx context.Context, s Source, r record.Record) error {
	to, ok := s.(remote)
	if !ok {
		return ErrNobodyToTell
	}
	return ask(ctx, to.conn, actionsServiceName, "Tell", r, func([]byte) error { return nil })
}

// ActionsService takes what commands tell of. Who may ask questions may tell: a record says that the caller's machine is all that vouches for the name.
type ActionsService struct{ log *actions.Log }

// NewActionsService makes the service.
func NewActionsService(l *actions.Log) *ActionsService { return &ActionsService{l} }

// Register offers the service on a gRPC server.
func (t *ActionsService) Register(to grpc.ServiceRegistrar) {
	to.RegisterService(&actionsServiceDesc, t)
}

type taker interface {
	take(grpc.ServerStream) error
}

var actionsServiceDesc = grpc.ServiceDesc{
	ServiceName: actionsServiceName,
	HandlerType: (*taker)(nil),
	Streams: []grpc.StreamDesc{
		{StreamName: "Tell", ServerStreams: true, Handler: func(s any, stream grpc.ServerStream) error { return s.(taker).take(stream) }},
	},
	Metadata: "sallyport/audit/v1",
}

func (t *ActionsService) take(stream grpc.ServerStream) error {
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
	if !slices.Contains(tellable, said.Action) || said.Actor == "" {
		return said, errors.New("it is approved, rejected, snoozed or applied, by somebody")
	}
	return record.Record{
		Time: time.Now(), Reporter: record.ReporterCommand, Actor: said.Actor, ActorBy: record.BySystem, Action: said.Action, Reason: said.Reason, URLPath: said.URLPath,
		Workload: record.Workload{Namespace: said.Workload.Namespace, ServiceAccount: said.Workload.ServiceAccount}, Host: said.Host, Port: said.Port,
	}, nil
}
