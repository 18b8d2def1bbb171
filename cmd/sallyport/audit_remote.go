package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/store/server"
	"github.com/sallyport/sallyport/sidecar/secrets"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/meshtls"
)

// auditPorts are the ways into an audit server from other pods: by a certificate of the mesh, or by a port that a
// forwarding API server reaches.
type auditPorts struct {
	tls, query             string
	caAddress, root, token string
	namespace, account     string
	trustDomain, recordsOf string
	certificates           string
	pair                   pairFlags
}

func (a *auditPorts) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&a.tls, "tls-addr", "", "where controllers hand in records, with certificates of the mesh, like :15016; empty for none")
	fs.StringVar(&a.caAddress, "ca-address", "", "the controller that signs this server's certificate, HOST:PORT")
	fs.StringVar(&a.root, "ca-root", "", "file with the mesh's roots")
	fs.StringVar(&a.token, "token", "", "file with this server's token")
	fs.StringVar(&a.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "this server's namespace (default $POD_NAMESPACE)")
	fs.StringVar(&a.account, "service-account", cmp.Or(os.Getenv("SERVICE_ACCOUNT"), "sallyport-audit"), "this server's service account")
	fs.StringVar(&a.trustDomain, "trust-domain", cmp.Or(os.Getenv("TRUST_DOMAIN"), identity.DefaultTrustDomain), "the mesh's trust domain (default $TRUST_DOMAIN)")
	fs.StringVar(&a.recordsOf, "records-from", "", "NAMESPACE/SERVICEACCOUNT that may hand in records by --tls-addr (default sallyport in --namespace)")
	fs.StringVar(&a.query, "query-addr", "", "where questions are answered in plain text, for kubectl port-forward; loopback only, like 127.0.0.1:15018; empty for none")
	a.pair.add(fs)
}

// check finds calls that cannot work, and fills in what follows from the rest.
func (a *auditPorts) check(data string) error {
	if a.query != "" {
		addr, err := netip.ParseAddrPort(a.query)
		if err != nil || !addr.Addr().IsLoopback() {
			return program.Misuse(fmt.Errorf("--query-addr %q: it has neither encryption nor login, so it must be on loopback, such as 127.0.0.1:15018", a.query))
		}
	}
	if err := a.pair.check(a); err != nil || a.tls == "" {
		return err
	}
	for flag, value := range map[string]string{"--ca-address": a.caAddress, "--ca-root": a.root, "--token": a.token, "--namespace": a.namespace} {
		if value == "" {
			return program.Misuse(fmt.Errorf("%s is missing: --tls-addr needs a certificate from the controller", flag))
		}
	}
	a.recordsOf = cmp.Or(a.recordsOf, a.namespace+"/sallyport")
	if ns, sa, ok := strings.Cut(a.recordsOf, "/"); !ok || identity.ValidateAccount(ns, sa) != nil {
		return program.Misuse(fmt.Errorf("--records-from %q: write NAMESPACE/SERVICEACCOUNT", a.recordsOf))
	}
	a.certificates = filepath.Join(data, "identity")
	return nil
}

// open makes the ports, the way to the other server of a pair, and what has to run beside the server: the certificate's renewal.
func (a *auditPorts) open(ctx context.Context, g *errgroup.Group, o *server.Options) error {
	if a.query != "" {
		l, err := net.Listen("tcp", a.query)
		if err != nil {
			return program.Misuse(fmt.Errorf("--query-addr %q: %w", a.query, err))
		}
		o.Ports = append(o.Ports, server.Port{Listen: opened(l), Questions: true})
	}
	if a.tls == "" {
		return nil
	}
	own, err := secrets.New(secrets.Options{
		Folder: a.certificates, CARootFile: a.root, TokenFile: a.token, Namespace: a.namespace, ServiceAccount: a.account, Log: o.Logger,
	})
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(a.caAddress, own.DialOptions()...)
	if err != nil {
		return fmt.Errorf("--ca-address %q: %w", a.caAddress, err)
	}
	g.Go(func() error {
		own.Run(ctx, conn)
		return conn.Close()
	})
	// A server of a pair listens when it has the log: whoever connects before goes to the other one.
	listen := func() (net.Listener, error) { return listenWithin(recordLimits, a.tls, o.Logger) }
	if len(a.pair.both) > 0 {
		if o.Pair, err = a.pair.open(a, own, o.Data, o.Logger); err != nil {
			return err
		}
	} else {
		l, err := listen()
		if err != nil {
			return program.Misuse(fmt.Errorf("--tls-addr %q: %w", a.tls, err))
		}
		listen = opened(l)
	}
	guard := identity.NewGuard(identity.Certificate{TrustDomain: a.trustDomain}, o.Logger, nil)
	o.Ports = append(o.Ports, server.Port{Listen: listen, Records: true, Options: append(forCertificates(30*time.Minute),
		grpc.Creds(credentials.NewTLS(meshtls.Server(own))),
		grpc.ChainStreamInterceptor(guard.Stream, a.writersOnly),
		grpc.UnaryInterceptor(guard.Unary),
	)})
	return nil
}

// opened is a listener that is there already.
func opened(l net.Listener) func() (net.Listener, error) {
	return func() (net.Listener, error) { return l, nil }
}

// writersOnly lets nobody hand in records but the controllers, which looked at who reported them.
func (a *auditPorts) writersOnly(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	id, ok := identity.FromContext(stream.Context())
	if !ok || id.Namespace+"/"+id.ServiceAccount != a.recordsOf {
		return status.Errorf(codes.PermissionDenied, "audit: %s may not hand in records here, only %s", id, a.recordsOf)
	}
	return next(srv, stream)
}

// serveAudit runs the audit server with its further ports.
func serveAudit(ctx context.Context, options server.Options, ports *auditPorts, door *loginFlags) error {
	g, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	var err error
	if options.Door, err = door.door(ctx, g, options.Logger); err == nil {
		err = ports.open(ctx, g, &options)
	}
	if err != nil {
		end()
		return errors.Join(err, g.Wait())
	}
	g.Go(func() error {
		defer end()
		return server.Run(ctx, options)
	})
	return g.Wait()
}
