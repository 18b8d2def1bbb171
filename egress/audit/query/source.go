package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// Where things are in the data folder.
const (
	SocketName = "audit.sock" // of the audit server
	StoreName  = "audit"      // the folder of the store
)

// Source answers questions about the audit log.
type Source interface {
	// Select calls f with the records that fit, oldest first.
	Select(ctx context.Context, filter Filter, f func(record.Record) error) error
	// Inputs calls f with the distinct inputs that fit, those of one question one after the other (see Inputs).
	Inputs(ctx context.Context, filter Filter, f func(*inputs.Input) error) error
	// SQL runs one SELECT on the table records.
	SQL(ctx context.Context, statement string, sink RowSink) error
	// Tail calls f with the newest filter.Limit records that fit, then with each that comes in, until ctx ends.
	Tail(ctx context.Context, filter Filter, f func(record.Record) error) error
	Close() error
}

// Open finds the audit log of a data folder: the server that listens there, else the database file, read-only.
func Open(ctx context.Context, data string) (Source, error) {
	for end := time.Now().Add(starting); ; {
		s, err := open(ctx, data)
		if err == nil || !store.IsLocked(err) || time.Now().After(end) {
			return s, err
		}
		select { // a server that begins has the database before it listens
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// starting is how long a server may have the database without being there to be asked.
const starting = 10 * time.Second

// MaxSocketPath is what fits sockaddr_un, less the end, in bytes: by a longer path nobody listens, and nobody is asked.
const MaxSocketPath = 107

func open(ctx context.Context, data string) (Source, error) {
	socket := filepath.Join(data, SocketName)
	if len(socket) > MaxSocketPath {
		s, err := openFile(ctx, data)
		if err != nil {
			err = fmt.Errorf("audit query: the socket's path %s is longer than %d bytes, so that no server can be asked by it: give a shorter --data: %w", socket, MaxSocketPath, err)
		}
		return s, err
	}
	if err := dial(ctx, socket); err == nil {
		conn, err := grpc.NewClient("passthrough:///audit", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			}))
		if err != nil {
			return nil, fmt.Errorf("audit query: %s: %w", socket, err)
		}
		return remote{conn}, nil
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("audit query: %s: %w", socket, err)
	}
	return openFile(ctx, data)
}

func openFile(ctx context.Context, data string) (Source, error) {
	db, err := store.OpenReadOnly(ctx, filepath.Join(data, StoreName), store.Options{})
	if err != nil {
		return nil, err
	}
	return file{db}, nil
}

// Through asks the audit server at the other end of a connection, which the source closes.
func Through(conn *grpc.ClientConn) Source { return remote{conn} }

// Over is a source that reads a database with the table of records; closing it closes the database.
func Over(db *sql.DB) Source { return file{db} }

// dial says whether somebody listens on the socket.
func dial(ctx context.Context, socket string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return c.Close()
}

// file is the database without a server.
type file struct{ db *sql.DB }

func (l file) Select(ctx context.Context, filter Filter, f func(record.Record) error) error {
	return Each(ctx, l.db, filter, f)
}

func (l file) Inputs(ctx context.Context, filter Filter, f func(*inputs.Input) error) error {
	return Inputs(ctx, l.db, filter, f)
}

func (l file) SQL(ctx context.Context, statement string, sink RowSink) error {
	return SQL(ctx, l.db, statement, sink)
}

func (l file) Tail(context.Context, Filter, func(record.Record) error) error {
	return errors.New("audit tail: no audit server is running on this data folder, so nothing new can come in; " +
		"start one (sallyport audit server) or use audit query")
}

func (l file) Close() error { return l.db.Close() }
