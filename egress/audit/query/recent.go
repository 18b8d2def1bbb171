package query

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// What a question about what was asked for lately may cost.
const (
	// RecentInputs is how many inputs an answer has at most.
	RecentInputs  = 20_000
	recentLongest = 24 * time.Hour
	recentWithin  = 10 * time.Second
	// mostNamespaces is how many of them may be asked about.
	mostNamespaces = 1000
)

// RecentQuestion asks for what was asked for lately.
type RecentQuestion struct {
	Within     time.Duration // up to now
	Namespaces []string      // of those who asked; none for all
}

// RecentInputsOf asks the audit server at the other end of a connection for the inputs of the records that came in lately, RecentInputs
// at most: those with the most records. The server answers one such question at a time, and refuses others with codes.ResourceExhausted.
func RecentInputsOf(ctx context.Context, conn *grpc.ClientConn, q RecentQuestion) (out []inputs.Input, err error) {
	err = ask(ctx, conn, recentServiceName, "Inputs", q, func(answer []byte) error {
		return eachInput(answer, func(x *inputs.Input) error { out = append(out, *x); return nil })
	})
	return out, err
}

// Recent answers questions about what was asked for lately, and no others: it is for those who may hand in records.
type Recent struct {
	store *store.Store
	busy  chan struct{} // holds one: who answers
}

// NewRecent makes the service of a store.
func NewRecent(s *store.Store) *Recent { return &Recent{s, make(chan struct{}, 1)} }

// Register offers the service on a gRPC server.
func (r *Recent) Register(to grpc.ServiceRegistrar) { to.RegisterService(&recentDesc, r) }

const recentServiceName = "sallyport.audit.v1.Recent"

type recentAnswerer interface {
	answer(grpc.ServerStream) error
}

var recentDesc = grpc.ServiceDesc{
	ServiceName: recentServiceName,
	HandlerType: (*recentAnswerer)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "Inputs", ServerStreams: true,
		Handler: func(s any, stream grpc.ServerStream) error { return s.(recentAnswerer).answer(stream) }}},
	Metadata: "sallyport/audit/v1",
}

func (r *Recent) answer(stream grpc.ServerStream) error {
	var q RecentQuestion
	if err := receive(stream, &q); err != nil {
		return err
	}
	if q.Within <= 0 || q.Within > recentLongest || len(q.Namespaces) > mostNamespaces {
		return status.Errorf(codes.InvalidArgument, "audit: the last %s of %d namespaces are asked for; at most %s of %d may be", q.Within, len(q.Namespaces), recentLongest, mostNamespaces)
	}
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
	default:
		return status.Error(codes.ResourceExhausted, "audit: another one asks for what was asked for lately; ask again")
	}
	ctx, cancel := context.WithTimeout(stream.Context(), recentWithin)
	defer cancel()
	sender := inputSender{stream: stream}
	filter := store.RecentFilter{Since: time.Now().Add(-q.Within), Namespaces: q.Namespaces, Most: RecentInputs}
	if err := store.EachRecent(ctx, r.store.DB(), filter, sender.add); err != nil {
		return err
	}
	return sender.flush()
}
