package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/egress/audit/store/server"
	"github.com/sallyport/sallyport/egress/console"
	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/review/apply"
	"github.com/sallyport/sallyport/egress/suggest"
)

// loginFlags are the web page for those who log in, by a port of its own.
type loginFlags struct {
	addr, cert, key, kubeconfig string
	issuer                      login.IssuerOptions
	issuerRoots                 string
}

func (f *loginFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.addr, "console-tls-addr", "", "where the web page is for those who log in, like :8443; empty for none. Of a cluster: its API server "+
		`says who they are, and whose records they may read (verb "get" on "auditrecords" of "egress.sallyport.io")`)
	fs.StringVar(&f.cert, "console-tls-cert", "", "file with that port's certificate; read again when it changes")
	fs.StringVar(&f.key, "console-tls-key", "", "file with its key")
	fs.StringVar(&f.kubeconfig, "console-kubeconfig", "", "kubeconfig file of the cluster that is asked, and read with --console-cluster (default: the pod's own)")
	fs.StringVar(&f.issuer.URL, "console-oidc-issuer", "", "an OpenID Connect issuer that people can log in at, https://...")
	fs.StringVar(&f.issuer.ClientID, "console-oidc-client-id", "", "what the web page is called there")
	fs.StringVar(&f.issuer.SecretFile, "console-oidc-secret", "", "file with its secret there; empty for a client without one")
	fs.StringVar(&f.issuer.Callback, "console-oidc-callback", "", "where the issuer sends people back to: https://HOST"+login.CallbackPath+", as browsers reach it")
	fs.StringVar(&f.issuer.UsernameClaim, "console-oidc-username-claim", "sub", "the claim that a user's name is made of, as the API server makes it by its flag of that name; so the following")
	fs.StringVar(&f.issuer.UsernamePrefix, "console-oidc-username-prefix", "", `before it (default ISSUER#, none for the claim email); "-" for none`)
	fs.StringVar(&f.issuer.GroupsClaim, "console-oidc-groups-claim", "", "the claim with a user's groups")
	fs.StringVar(&f.issuer.GroupsPrefix, "console-oidc-groups-prefix", "", "before each of them")
	fs.StringSliceVar(&f.issuer.Scopes, "console-oidc-scopes", nil, "what the issuer is asked for beside openid, like email,groups")
	fs.BoolVar(&f.issuer.Logout, "console-oidc-logout", false, "who logs out of the web page does so at the issuer, too; it has to know https://HOST/login as where people are sent back to then")
	fs.StringVar(&f.issuerRoots, "console-oidc-ca", "", "file with the roots of the issuer's certificate (default: the system's)")
}

// door opens the port; nil where none is asked for. What has to run beside the server goes to the group.
func (f *loginFlags) door(ctx context.Context, g *errgroup.Group, log *slog.Logger) (*server.LoginListener, error) {
	if f.addr == "" {
		return nil, nil
	}
	if f.cert == "" || f.key == "" {
		return nil, program.Misuse(errors.New("--console-tls-addr: give its certificate and key with --console-tls-cert and --console-tls-key: tokens come in there"))
	}
	who := login.Options{}
	var err error
	if f.issuer.URL != "" {
		if f.issuer.Client, err = f.issuerClient(); err != nil {
			return nil, err
		}
		if who.Issuer, err = login.NewIssuer(f.issuer); err != nil {
			return nil, program.Misuse(fmt.Errorf("--console-oidc-...: %w", err))
		}
	}
	access, err := f.access()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, program.Misuse(fmt.Errorf("--console-kubeconfig %q: %w", f.kubeconfig, err))
	}
	who.Cluster = login.Kubernetes(client)
	l, err := listenWithin(consoleLimits, f.addr, log)
	if err != nil {
		return nil, program.Misuse(fmt.Errorf("--console-tls-addr %q: %w", f.addr, err))
	}
	certificate := &lateCertificate{cert: f.cert, key: f.key, log: log}
	g.Go(func() error {
		certificate.run(ctx)
		return nil
	})
	return &server.LoginListener{Login: who, Apply: applyTo(access), Listener: tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: certificate.get,
	})}, nil
}

// lateCertificate is a certificate that may not be there yet, or be broken: the port takes nobody then, and the log is kept all the same.
type lateCertificate struct {
	cert, key string
	log       *slog.Logger
	watcher   atomic.Pointer[certwatcher.CertWatcher]
}

// tryCertificate is how long it takes until the files are tried again.
const tryCertificate = 10 * time.Second

func (c *lateCertificate) run(ctx context.Context) {
	for said := ""; ctx.Err() == nil; {
		watcher, err := certwatcher.New(c.cert, c.key)
		if err == nil {
			c.watcher.Store(watcher)
			err = watcher.Start(ctx) // until ctx ends
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			c.log.Error("console: nobody can log in: the certificate of --console-tls-cert and --console-tls-key cannot be read; it is tried again", "cert", c.cert, "key", c.key, "err", err)
		}
		select {
		case <-time.After(tryCertificate):
		case <-ctx.Done():
		}
	}
}

func (c *lateCertificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if watcher := c.watcher.Load(); watcher != nil {
		return watcher.GetCertificate(hello)
	}
	return nil, errors.New("there is no certificate yet")
}

// access is to the API server that is asked.
func (f *loginFlags) access() (*rest.Config, error) {
	config, err := kube.Connect(f.kubeconfig, "")
	if err != nil {
		return nil, program.Misuse(fmt.Errorf("--console-tls-addr: who logs in is asked of a cluster: %w", err))
	}
	config.UserAgent = "sallyport-console/" + version
	config.QPS, config.Burst = 200, 400 // a reader of some namespaces is a question for each
	return config, nil
}

// applyTo applies objects at the same API server with a reader's token. The server's own rights stay out of it.
func applyTo(access *rest.Config) func(context.Context, string, []suggest.Change) (console.Prepared, error) {
	return func(ctx context.Context, token string, changes []suggest.Change) (console.Prepared, error) {
		return apply.Prepare(ctx, apply.As(access, token), changes)
	}
}

// issuerClient trusts what the file has.
func (f *loginFlags) issuerClient() (*http.Client, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	if f.issuerRoots == "" {
		return client, nil
	}
	text, err := os.ReadFile(f.issuerRoots)
	if err != nil {
		return nil, program.Misuse(fmt.Errorf("--console-oidc-ca: %w", err))
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, program.Misuse(fmt.Errorf("--console-oidc-ca %q: there is no certificate in it", f.issuerRoots))
	}
	client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, ForceAttemptHTTP2: true}
	return client, nil
}
