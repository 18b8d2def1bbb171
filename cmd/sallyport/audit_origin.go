package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/forward"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// auditPort is where an audit server's pod answers questions on its loopback.
const auditPort = 15018

// auditOrigin says which log is read: a data folder's, a cluster's, or a lake.
type auditOrigin struct {
	data    string
	cluster clusterFlags
	lake    lakeReading
}

func (l *auditOrigin) add(cmd *cobra.Command) {
	auditDataFlag(cmd, &l.data)
	l.cluster.add(cmd.Flags())
	l.lake.add(cmd.Flags())
}

// open opens the log for reading.
func (l *auditOrigin) open(ctx context.Context) (query.Source, error) {
	if l.lake.where != "" {
		if l.data != "" {
			return nil, program.Misuse(errors.New("--data and --lake exclude each other: the log is in one place"))
		}
		return l.lake.open()
	}
	if l.cluster.given() {
		if l.data != "" {
			return nil, program.Misuse(errors.New("--data and --kubeconfig exclude each other: the log is in one place"))
		}
		return l.inCluster(ctx)
	}
	data, err := auditData(l.data)
	if err != nil {
		return nil, err
	}
	return query.Open(ctx, data)
}

// inCluster asks the audit server's pod through the API server.
func (l *auditOrigin) inCluster(ctx context.Context) (query.Source, error) {
	access, err := l.cluster.open(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	ready, _, err := forward.Ready(ctx, access.client.CoreV1(), access.system, auditLabel)
	if err != nil {
		return nil, access.noAccess(fmt.Errorf("the audit server: %w", err))
	}
	tunnel, err := forward.Open(ctx, access.config, access.system, ready[0].Name)
	if err != nil {
		return nil, access.noAccess(err)
	}
	conn, err := grpc.NewClient("passthrough:///audit", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return tunnel.Dial(ctx, auditPort) }))
	if err != nil {
		return nil, errors.Join(err, tunnel.Close())
	}
	return tunnelled{query.Through(conn), tunnel}, nil
}

// tunnelled is a source that ends its tunnel.
type tunnelled struct {
	query.Source
	tunnel *forward.Tunnel
}

// untunnelled is the source itself, behind a tunnel or not.
func untunnelled(s query.Source) query.Source {
	if t, ok := s.(tunnelled); ok {
		return t.Source
	}
	return s
}

func (t tunnelled) Close() error { return errors.Join(t.Source.Close(), t.tunnel.Close()) }
