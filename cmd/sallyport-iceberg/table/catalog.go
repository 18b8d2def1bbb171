package table

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
)

// Catalog is how a REST catalog is reached. Files are read at each pass, so that what is in them can be rotated.
type Catalog struct {
	URL        string
	Warehouse  string
	Token      string // file with a bearer token
	Credential string // or with CLIENT_ID:SECRET, by which tokens are asked for
	AuthURL    string // where; "" for the catalog's own endpoint
	Scope      string
	CAFile     string // with roots that are trusted beside the system's
}

// Check finds what cannot work.
func (c *Catalog) Check() error {
	for name, text := range map[string]string{"--catalog": c.URL, "--catalog-auth-url": c.AuthURL} {
		if text == "" && name != "--catalog" {
			continue
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
			return fmt.Errorf("%s %q: write a URL like https://catalog.example.com/iceberg", name, redacted(u))
		case u.User != nil:
			return fmt.Errorf("%s %q: credentials do not belong in it: give --catalog-token or --catalog-credential", name, redacted(u))
		case u.Scheme == "http" && (c.Token != "" || c.Credential != "") && !loopback(u.Hostname()):
			return fmt.Errorf("%s %q: a secret would go there in the clear: write https://", name, redacted(u))
		}
	}
	if c.Token != "" && c.Credential != "" {
		return errors.New("--catalog-token and --catalog-credential exclude each other")
	}
	return nil
}

func redacted(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Redacted()
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// open asks the catalog for its configuration.
func (c *Catalog) open(ctx context.Context) (*rest.Catalog, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--catalog-ca: %w", err)
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--catalog-ca %s holds no certificate", c.CAFile)
		}
	}
	options := []rest.Option{rest.WithTransportFactory(func(*tls.Config) (http.RoundTripper, func()) {
		t := &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, ResponseHeaderTimeout: time.Minute,
		}
		return t, t.CloseIdleConnections
	})}
	if c.Warehouse != "" {
		options = append(options, rest.WithWarehouseLocation(c.Warehouse))
	}
	if c.Scope != "" {
		options = append(options, rest.WithScope(c.Scope))
	}
	if c.AuthURL != "" {
		u, err := url.Parse(c.AuthURL)
		if err != nil {
			return nil, err
		}
		options = append(options, rest.WithAuthURI(u))
	}
	for file, option := range map[string]func(string) rest.Option{c.Token: rest.WithOAuthToken, c.Credential: rest.WithCredential} {
		if file == "" {
			continue
		}
		secret, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the catalog's secret: %w", err)
		}
		options = append(options, option(strings.TrimSpace(string(secret))))
	}
	r, err := rest.NewCatalog(ctx, "sallyport", c.URL, options...)
	if err != nil {
		return nil, c.failed("it gives no configuration: is this an Iceberg REST catalog?", err)
	}
	return r, nil
}

func (c *Catalog) failed(what string, err error) error {
	if errors.Is(err, rest.ErrUnauthorized) || errors.Is(err, rest.ErrForbidden) {
		what = "it does not let in who calls: look at --catalog-token or --catalog-credential, and at what they may do there"
	}
	return fmt.Errorf("the catalog %s: %s: %w", c.URL, what, err)
}

// load gives the table, which it makes where there is none.
func (k *Keeper) load(ctx context.Context, r *rest.Catalog) (*table.Table, error) {
	t, err := r.LoadTable(ctx, k.ident())
	if errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace) {
		if t, err = k.create(ctx, r); errors.Is(err, catalog.ErrTableAlreadyExists) {
			t, err = r.LoadTable(ctx, k.ident())
		}
	}
	if err != nil {
		return nil, k.Catalog.failed("table "+k.Table, err)
	}
	if _, err := (storage{ctx, k.Lake}).name(strings.TrimSuffix(t.Location(), "/")); err != nil {
		return nil, fmt.Errorf("table %s: %w; have the catalog allow %s, or name another --table", k.Table, err, k.Location)
	}
	return table.New(t.Identifier(), t.Metadata(), t.MetadataLocation(), func(ctx context.Context) (iceIO, error) { return storage{ctx, k.Lake}, nil }, r), nil
}

// create makes the namespace and the table.
func (k *Keeper) create(ctx context.Context, r *rest.Catalog) (*table.Table, error) {
	namespace := k.ident()[:len(k.ident())-1]
	for i := range namespace {
		if err := r.CreateNamespace(ctx, namespace[:i+1], nil); err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
			if there, e := r.CheckNamespaceExists(ctx, namespace[:i+1]); e != nil || !there {
				return nil, err
			}
		}
	}
	schema := schemaOf(k.columns)
	spec, err := specOf(schema)
	if err != nil {
		return nil, err
	}
	return r.CreateTable(ctx, k.ident(), schema, catalog.WithLocation(k.Location), catalog.WithPartitionSpec(&spec), catalog.WithProperties(iceberg.Properties{
		"format-version": "2", table.ManifestMergeEnabledKey: "true", table.ManifestMinMergeCountKey: "20",
		table.MetadataDeleteAfterCommitEnabledKey: "true", table.MetadataPreviousVersionsMaxKey: "20",
		table.CommitNumRetriesKey: "0", "gc.enabled": "true",
	}))
}
