package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// The service is gRPC without generated code: a question (BytesValue holding JSON), a stream of answers (BytesValue).
// Select and Tail answer with ingest's batches; Inputs with lists in encoding/gob, which is told the fields' names; SQL first with a JSON array of the column names, then with lines of
// JSON arrays.
const serviceName = "sallyport.audit.v1.Query"

// answerBytes is about how large one answer of SQL is.
const answerBytes = 256 << 10

// mostRow is how large a row may be: what gRPC takes as one message, and the rows before it.
const mostRow = 3 << 20

// Service offers a store to remote sources.
type Service struct {
	store              *store.Store
	statements, others turns
}

// How many questions are answered at a time: together fewer than a store has connections for.
const (
	mostStatements = 3
	mostOthers     = 3
)

// NewService makes the service of a store.
func NewService(s *store.Store) *Service {
	return &Service{s, newTurns(mostStatements), newTurns(mostOthers)}
}

// Register offers the service on a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { r.RegisterService(&serviceDesc, s) }

type answerer interface {
	answerSelect(grpc.ServerStream) error
	answerInputs(grpc.ServerStream) error
	answerSQL(grpc.ServerStream) error
	answerTail(grpc.ServerStream) error
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*answerer)(nil),
	Streams: []grpc.StreamDesc{
		{StreamName: "Select", ServerStreams: true,
			Handler: func(s any, stream grpc.ServerStream) error { return s.(answerer).answerSelect(stream) }},
		{StreamName: "Inputs", ServerStreams: true,
			Handler: func(s any, stream grpc.ServerStream) error { return s.(answerer).answerInputs(stream) }},
		{StreamName: "SQL", ServerStreams: true,
			Handler: func(s any, stream grpc.ServerStream) error { return s.(answerer).answerSQL(stream) }},
		{StreamName: "Tail", ServerStreams: true,
			Handler: func(s any, stream grpc.ServerStream) error { return s.(answerer).answerTail(stream) }},
	},
	Metadata: "sallyport/audit/v1",
}

func receive(stream grpc.ServerStream, question any) error {
	var in wrapperspb.BytesValue
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	if err := json.Unmarshal(in.Value, question); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

func sendRecords(stream grpc.ServerStream, records []record.Record) error {
	for len(records) > 0 {
		packed, taken := ingest.EncodeBatch(records)
		if err := stream.SendMsg(wrapperspb.Bytes(packed)); err != nil {
			return err
		}
		records = records[taken:]
	}
	return nil
}

func (s *Service) answerSelect(stream grpc.ServerStream) error {
	var filter Filter
	if err := receive(stream, &filter); err != nil {
		return err
	}
	return s.others.answer(stream, func(stream grpc.ServerStream) error { return s.sendSelected(stream, filter, nil) })
}

// sendSelected sends what the filter finds; note, if any, sees each record.
func (s *Service) sendSelected(stream grpc.ServerStream, filter Filter, note func(record.Record)) error {
	var batch []record.Record
	err := Each(stream.Context(), s.store.DB(), filter, func(r record.Record) error {
		if note != nil {
			note(r)
		}
		if batch = append(batch, r); len(batch) < ingest.MaxBatch {
			return nil
		}
		err := sendRecords(stream, batch)
		batch = batch[:0]
		return err
	})
	if err != nil {
		return err
	}
	return sendRecords(stream, batch)
}

func (s *Service) answerSQL(stream grpc.ServerStream) error {
	var statement string
	if err := receive(stream, &statement); err != nil {
		return err
	}
	return s.statements.answer(stream, func(stream grpc.ServerStream) error { return s.sendRows(stream, statement) })
}

// sendRows sends the answer of a statement.
func (s *Service) sendRows(stream grpc.ServerStream, statement string) error {
	sink := &rowSender{stream: stream}
	err := SQL(stream.Context(), s.store.DB(), statement, sink)
	var wrong StatementError
	if errors.As(err, &wrong) {
		return status.Error(codes.InvalidArgument, wrong.Err.Error())
	}
	if err != nil {
		return err
	}
	return sink.flush()
}

// rowSender is a RowSink that writes to a stream.
type rowSender struct {
	stream grpc.ServerStream
	lines  bytes.Buffer
}

func (s *rowSender) Columns(names []string) error {
	b, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return s.stream.SendMsg(wrapperspb.Bytes(b))
}

func (s *rowSender) Row(cells []any) error {
	before := s.lines.Len()
	if err := json.NewEncoder(&s.lines).Encode(cells); err != nil {
		return fmt.Errorf("audit sql: %w", err)
	}
	if s.lines.Len()-before > mostRow {
		return StatementError{errors.New("a row of the answer has more than 3 MiB: ask for less of it, such as left(url_path, 1000)")}
	}
	if s.lines.Len() < answerBytes {
		return nil
	}
	return s.flush()
}

func (s *rowSender) flush() error {
	if s.lines.Len() == 0 {
		return nil
	}
	err := s.stream.SendMsg(wrapperspb.Bytes(bytes.Clone(s.lines.Bytes())))
	s.lines.Reset()
	return err
}

// tailBuffer is how many batches wait for a slow tail before it misses some.
const tailBuffer = 256

func (s *Service) answerTail(stream grpc.ServerStream) error {
	var filter Filter
	if err := receive(stream, &filter); err != nil {
		return err
	}
	following := s.store.Follow(tailBuffer) // first, so that nothing falls between the past and the new
	defer following.Close()
	type identity struct {
		proxy      string
		epoch, seq uint64
	}
	past := map[identity]bool{}
	if filter.Limit > 0 {
		err := s.others.answer(stream, func(stream grpc.ServerStream) error {
			return s.sendSelected(stream, filter, func(r record.Record) { past[identity{r.Proxy, r.Epoch, r.Seq}] = true })
		})
		if err != nil {
			return err
		}
	}
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case records, open := <-following.C:
			if !open {
				return status.Error(codes.Unavailable, "the audit server is closing")
			}
			var fit []record.Record
			for _, r := range records {
				id := identity{r.Proxy, r.Epoch, r.Seq}
				if filter.Match(&r) && !past[id] {
					fit = append(fit, r)
				}
				delete(past, id)
			}
			if missed := following.Missed(); missed > 0 {
				fit = append(fit, record.Record{Proxy: "audit tail", Class: record.Gap, Time: records[0].Time, Count: missed,
					Reason: "this tail was too slow; the records are in the log"})
			}
			if err := sendRecords(stream, fit); err != nil {
				return err
			}
		}
	}
}

// ask sends a question and calls f with each answer.
func ask(ctx context.Context, conn *grpc.ClientConn, service, method string, question any, f func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("audit query: %w", err)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+service+"/"+method)
	if err != nil {
		return answerError(err)
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.Bytes(b)), stream.CloseSend()); err != nil {
		return answerError(err)
	}
	for {
		var answer wrapperspb.BytesValue
		if err := stream.RecvMsg(&answer); err != nil {
			return answerError(err)
		}
		if err := f(answer.Value); err != nil {
			return err
		}
	}
}
