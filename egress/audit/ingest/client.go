package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/egress/audit/ingest/ingestpb"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// Client is a Sink that passes records on to another Ingest server.
type Client struct{ ingest ingestpb.IngestClient }

// NewClient makes a Sink of a connection, which stays the caller's to close.
func NewClient(conn grpc.ClientConnInterface) *Client { return &Client{ingestpb.NewIngestClient(conn)} }

// Store returns nil when the far side acknowledged everything.
func (c *Client) Store(ctx context.Context, records []record.Record) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.ingest.Ship(ctx)
	if err != nil {
		return fmt.Errorf("audit ingest: %w", err)
	}
	for len(records) > 0 {
		packed, taken := EncodeBatch(records)
		if _, err := exchange(stream, packed); err != nil {
			return err
		}
		records = records[taken:]
	}
	return stream.CloseSend()
}

// batches is a stream of Ship, as its client has it.
type batches = grpc.BidiStreamingClient[wrapperspb.BytesValue, wrapperspb.UInt64Value]

// exchange sends a batch and waits for its acknowledgement.
func exchange(stream batches, packed []byte) (acked uint64, err error) {
	// Send says only io.EOF when the stream has ended; Recv knows why.
	if err := stream.Send(wrapperspb.Bytes(packed)); err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("audit ingest: %w", err)
	}
	answer, err := stream.Recv()
	if err != nil {
		return 0, fmt.Errorf("audit ingest: %w", err)
	}
	return answer.Value, nil
}
