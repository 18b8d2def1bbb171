package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Client is a Sink that passes records on to another Ingest server.
type Client struct{ conn grpc.ClientConnInterface }

// NewClient makes a Sink of a connection, which stays the caller's to close.
func NewClient(conn grpc.ClientConnInterface) *Client { return &Client{conn} }

// Store returns nil when the far side acknowledged everything.
func (c *Client) Store(ctx context.Context, records []record.Record) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.conn.NewStream(ctx, &shipStream, shipMethod)
	if err != nil {
		return fmt.Errorf("audit ingest: %w", err)
	}
	for len(records) > 0 {
		_, taken, err := exchange(stream, records)
		if err != nil {
			return err
		}
		records = records[taken:]
	}
	return stream.CloseSend()
}

// exchange sends the records that fit one batch and waits for their acknowledgement.
func exchange(stream grpc.ClientStream, records []record.Record) (acked uint64, taken int, err error) {
	packed, taken, err := EncodeBatch(records)
	if err != nil {
		return 0, 0, err
	}
	// SendMsg says only io.EOF when the stream has ended; RecvMsg knows why.
	if err := stream.SendMsg(wrapperspb.Bytes(packed)); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, fmt.Errorf("audit ingest: %w", err)
	}
	var answer wrapperspb.UInt64Value
	if err := stream.RecvMsg(&answer); err != nil {
		return 0, 0, fmt.Errorf("audit ingest: %w", err)
	}
	return answer.Value, taken, nil
}
