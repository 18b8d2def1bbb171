package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// remote asks an audit server.
type remote struct{ conn *grpc.ClientConn }

func (r remote) Select(ctx context.Context, filter Filter, f func(record.Record) error) error {
	return ask(ctx, r.conn, serviceName, "Select", filter, eachRecord(f))
}

func (r remote) Tail(ctx context.Context, filter Filter, f func(record.Record) error) error {
	return ask(ctx, r.conn, serviceName, "Tail", filter, eachRecord(f))
}

func (r remote) Inputs(ctx context.Context, filter Filter, f func(*inputs.Input) error) error {
	if err := filter.forInputs(); err != nil {
		return err
	}
	return ask(ctx, r.conn, serviceName, "Inputs", filter, func(answer []byte) error { return eachInput(answer, f) })
}

func (r remote) SQL(ctx context.Context, statement string, sink RowSink) error {
	first := true
	return ask(ctx, r.conn, serviceName, "SQL", statement, func(answer []byte) error {
		d := json.NewDecoder(bytes.NewReader(answer))
		d.UseNumber() // 64-bit numbers stay what they are
		if first {
			first = false
			var names []string
			if err := d.Decode(&names); err != nil {
				return fmt.Errorf("audit sql: %w", err)
			}
			return sink.Columns(names)
		}
		for {
			var cells []any
			if err := d.Decode(&cells); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("audit sql: %w", err)
			}
			if err := sink.Row(cells); err != nil {
				return err
			}
		}
	})
}

func (r remote) Close() error { return r.conn.Close() }

func eachRecord(f func(record.Record) error) func([]byte) error {
	return func(answer []byte) error {
		records, err := ingest.DecodeBatch(answer)
		if err != nil {
			return err
		}
		for _, r := range records {
			if err := f(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// answerError is nil at the proper end of the answers.
func answerError(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case status.Code(err) == codes.InvalidArgument:
		return StatementError{errors.New(status.Convert(err).Message())}
	case status.Code(err) == codes.Unimplemented:
		return errors.New("audit server: it is of an older version, which does not know the question: start that of this version")
	case status.Code(err) == codes.Canceled:
		return context.Canceled
	}
	return fmt.Errorf("audit server: %s", status.Convert(err).Message())
}
