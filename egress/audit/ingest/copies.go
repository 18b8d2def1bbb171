package ingest

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sallyport/sallyport/egress/audit/ingest/ingestpb"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// storeHeader is the metadata in which a server of copies says which store it fills.
const storeHeader = "sallyport-store"

// Copies makes it the end for the other server of a pair, whose store takes what it says: records of what people do, too, and no records at
// all, which say that there are no more. store tells this server's store from others. Call it before serving.
func (s *Server) Copies(store string) { s.store = store }

// Copies is a stream to such a server.
type Copies struct {
	Store  string // the other server's
	stream batches
}

// OpenCopies opens the stream, which lasts until ctx ends.
func OpenCopies(ctx context.Context, conn grpc.ClientConnInterface) (*Copies, error) {
	stream, err := ingestpb.NewIngestClient(conn).Ship(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit ingest: %w", err)
	}
	header, err := stream.Header()
	if err != nil {
		return nil, fmt.Errorf("audit ingest: %w", err)
	}
	names := header.Get(storeHeader)
	if len(names) != 1 || names[0] == "" {
		_, err := stream.Recv() // which knows why
		return nil, fmt.Errorf("audit ingest: the server does not say which store it fills: %w", err)
	}
	return &Copies{Store: names[0], stream: stream}, nil
}

// Send returns nil when the other server acknowledged all of them; without records it says that there are no more.
func (c *Copies) Send(records []record.Record) error {
	for {
		packed, taken := EncodeBatch(records)
		if _, err := exchange(c.stream, packed); err != nil {
			return err
		}
		if records = records[taken:]; len(records) == 0 {
			return nil
		}
	}
}

// named says which store it is, before anything else.
func (s *Server) named(stream grpc.ServerStream) error {
	if s.store == "" {
		return nil
	}
	return stream.SendHeader(metadata.Pairs(storeHeader, s.store))
}

// errActions is of records that no proxy reports.
var errActions = errors.New("fields actor, actorBy and action: what people do no proxy reports")
