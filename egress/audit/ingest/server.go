package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/pacedlog"
	"github.com/sallyport/sallyport/egress/audit/ingest/ingestpb"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// Sink takes records. Store returns nil only when they are durable (or known already); the caller sends them again
// after an error.
type Sink interface {
	Store(ctx context.Context, records []record.Record) error
}

// Authorize judges a record that came over a stream whose context is ctx; it may alter it. An error keeps the record
// out: it is counted, logged and acknowledged, so that it does not hold up others. An error with gRPC's code
// Unauthenticated ends the stream instead, with nothing of the batch stored.
//
// Whoever may name any Proxy can make the store take another proxy's records for copies: Authorize has to check
// Record.Proxy as well as Record.Workload.
type Authorize func(ctx context.Context, r *record.Record) error

// inFlight bounds how many batches are unpacked at the same time, over all streams.
const inFlight = 32

// Server is the receiving end.
type Server struct {
	ingestpb.UnimplementedIngestServer
	sink      Sink
	authorize Authorize
	log       *slog.Logger
	store     string                       // see Copies; "" where proxies' records come
	caller    func(context.Context) string // see Share
	places    *places
	budgets   *budgets
	told      *slog.Logger // of what senders cause: whoever has a certificate can hand in as many records as he likes
	telling   atomic.Bool  // a call of tellLater is under way

	batches, received, refused, limited atomic.Uint64
}

// ServerStats counts since the start.
type ServerStats struct {
	Batches  uint64
	Received uint64 // records, refused ones among them
	Refused  uint64 // records that validation or Authorize kept out
	Limited  uint64 // records that were more than Limit lets an identity have
}

// NewServer makes the receiving end of Ship; authorize may be nil where every peer is trusted (a socket of mode 0600).
func NewServer(sink Sink, authorize Authorize, logger *slog.Logger) *Server {
	if authorize == nil {
		authorize = func(context.Context, *record.Record) error { return nil }
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Server{
		sink: sink, authorize: authorize, log: logger, caller: func(context.Context) string { return "" },
		places: newPlaces(inFlight), budgets: newBudgets(func() float64 { return 0 }, time.Now), told: pacedlog.New(logger, 300),
	}
}

// Register offers the service on a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { ingestpb.RegisterIngestServer(r, s) }

// Stats tells what came in.
func (s *Server) Stats() ServerStats {
	return ServerStats{Batches: s.batches.Load(), Received: s.received.Load(), Refused: s.refused.Load(), Limited: s.limited.Load()}
}

// Ship serves one stream: a batch, its acknowledgement, the next batch.
func (s *Server) Ship(stream grpc.BidiStreamingServer[wrapperspb.BytesValue, wrapperspb.UInt64Value]) error {
	if err := s.named(stream); err != nil {
		return err
	}
	for {
		in, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		acked, err := s.take(stream.Context(), in.Value)
		if err != nil {
			return err
		}
		if err := stream.Send(wrapperspb.UInt64(acked)); err != nil {
			return err
		}
	}
}

// take stores one batch and returns its highest sequence number.
func (s *Server) take(ctx context.Context, packed []byte) (uint64, error) {
	who := s.caller(ctx)
	if err := s.places.take(ctx, who); err != nil {
		return 0, status.FromContextError(err).Err()
	}
	defer s.places.leave(who)
	batch, err := DecodeBatch(packed)
	if err != nil {
		return 0, status.Error(codes.InvalidArgument, err.Error())
	}
	var highest uint64
	accepted, taken, limited := batch[:0], spent{}, uint64(0) // a record is large: those that stay are moved where others went
	for i := range batch {
		r := &batch[i]
		highest = max(highest, r.Seq)
		switch err := s.judge(ctx, r); {
		case err == nil && s.budgets.spend(r, taken):
			if len(accepted) < i {
				accepted = append(accepted, *r)
			} else {
				accepted = batch[:i+1]
			}
		case err == nil:
			limited++
		case status.Code(err) == codes.Unauthenticated:
			s.budgets.giveBack(taken)
			return 0, err
		default:
			s.refused.Add(1)
			s.told.Warn("audit record refused", "proxy", r.Proxy, "principal", r.Workload.Principal, "epoch", r.Epoch, "seq", r.Seq, "err", err)
		}
	}
	s.batches.Add(1)
	s.received.Add(uint64(len(batch)))
	gaps, wait := s.budgets.owed()
	if accepted = append(accepted, recordsOf(gaps)...); len(accepted) == 0 && (s.store == "" || len(batch) > 0) {
		if wait {
			s.tellLater()
		}
		return highest, nil
	}
	if err := s.sink.Store(ctx, accepted); err != nil {
		s.budgets.owe(gaps)
		s.budgets.giveBack(taken)
		s.log.Error("audit records could not be stored; their sender tries again", "records", len(accepted), "err", err)
		return 0, status.Errorf(codes.Unavailable, "store %d audit records: %v", len(accepted), err)
	}
	s.limited.Add(limited)
	if wait {
		s.tellLater()
	}
	return highest, nil
}

func (s *Server) judge(ctx context.Context, r *record.Record) error {
	if err := s.validate(r); err != nil {
		return err
	}
	if err := s.authorize(ctx, r); err != nil {
		return err
	}
	switch r.Direction {
	case "", record.Outbound, record.Inbound, record.Lateral:
	default:
		r.Direction = "" // a word of the sender's own
	}
	r.Bound() // whatever the sender did about it
	return nil
}

// maxProxy is how long a node id is at most: a pod's name, a namespace twice, an address and a domain.
const maxProxy = 1024

// validate refuses what no store could keep or find again.
func (s *Server) validate(r *record.Record) error {
	switch {
	case r.Proxy == "" || len(r.Proxy) > maxProxy || strings.ContainsFunc(r.Proxy, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("field proxy: give the node id, at most %d bytes of ASCII", maxProxy)
	case r.Epoch == 0 || r.Seq == 0:
		return errors.New("fields epoch and seq: both begin at 1")
	case r.Time.Year() < 2000 || r.Time.Year() > 9999:
		return errors.New("field time: out of range")
	}
	if s.store != "" && r.Class == record.Action {
		return nil
	}
	if r.Actor != "" || r.ActorBy != "" || r.Action != "" {
		return errActions
	}
	switch r.Class {
	case record.Network, record.HTTP, record.DNS, record.Gap:
		return nil
	}
	return errors.New("field class: one of network, http, dns, gap")
}
