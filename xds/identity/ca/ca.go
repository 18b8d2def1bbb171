package ca

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

const (
	// DefaultTTL is the lifetime of a workload's certificate; Istio's default.
	DefaultTTL = 24 * time.Hour
	// MinTTL is the shortest lifetime worth configuring: below it, one slow answer is an outage.
	MinTTL = time.Minute
	// Backdate is how long before its making a certificate is already valid, for clocks that are behind.
	Backdate = 2 * time.Minute

	// BundleFile is the trust bundle's name in the controller's data folder.
	BundleFile = "root-cert.pem"
)

// Options configure a CA.
type Options struct {
	// DataDir is the controller's data folder; made when missing. The trust bundle is written there. It may be empty
	// when there is a Store.
	DataDir string
	// CACertsDir, when not empty, is a folder with ca-cert.pem, ca-key.pem, root-cert.pem and cert-chain.pem to load
	// in place of making a root.
	CACertsDir string
	// Store, when not nil, keeps the CA in the place of the folders.
	Store Store
	// TrustDomain is the only one that certificates are signed for; empty is identity.DefaultTrustDomain.
	TrustDomain string
	// Changed, when not nil, is called after the CA changed under way. It must not block.
	Changed func()
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// CA signs certificates. All its methods may be called at the same time.
type CA struct {
	options Options
	store   Store
	reload  sync.Mutex
	issuer  atomic.Pointer[issuer]
}

// Open is OpenContext for folders, which need no context.
func Open(o Options) (*CA, error) { return OpenContext(context.Background(), o) }

// OpenContext loads the CA that the options name, making a self-signed root when there is none, and writes the trust
// bundle. Several controllers may open the same one at the same time: they get the same root.
func OpenContext(ctx context.Context, o Options) (*CA, error) {
	if o.TrustDomain == "" {
		o.TrustDomain = identity.DefaultTrustDomain
	}
	if err := identity.ValidateTrustDomain(o.TrustDomain); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.DataDir == "" && o.Store == nil {
		return nil, errors.New("mesh CA: no data folder given")
	}
	if o.DataDir != "" {
		if err := os.MkdirAll(o.DataDir, 0o755); err != nil {
			return nil, fmt.Errorf("data folder: %w", err)
		}
	}
	c := &CA{options: o, store: o.store()}
	files, err := obtain(ctx, c.store, o.TrustDomain, o.Now())
	if err != nil {
		return nil, fmt.Errorf("mesh CA: %w", err)
	}
	if _, err := c.take(files); err != nil {
		return nil, err
	}
	return c, nil
}

func (o Options) store() Store {
	switch {
	case o.Store != nil:
		return o.Store
	case o.CACertsDir != "":
		return given(o.CACertsDir)
	default:
		return InFolder(o.DataDir)
	}
}

// Reload is ReloadContext for folders.
func (c *CA) Reload() (changed bool, err error) { return c.ReloadContext(context.Background()) }

// ReloadContext reads key, chain and roots again and takes them over, all or nothing: after an error the CA goes on
// with what it had. It reports whether anything changed.
func (c *CA) ReloadContext(ctx context.Context) (changed bool, err error) {
	c.reload.Lock()
	defer c.reload.Unlock()
	files, err := c.store.Load(ctx)
	if err != nil {
		return false, fmt.Errorf("mesh CA: %w", err)
	}
	if changed, err = c.take(files); changed && c.options.Changed != nil {
		c.options.Changed()
	}
	return changed, err
}

// take makes the files the CA's state.
func (c *CA) take(files Files) (changed bool, err error) {
	next, err := files.issuer(c.options.Now())
	if err != nil {
		return false, fmt.Errorf("mesh CA: %w", err)
	}
	if err := c.writeBundle(next); err != nil {
		return false, err
	}
	last := c.issuer.Load()
	if last != nil && last.equal(next) {
		return false, nil
	}
	if last != nil && !next.overlaps(last) {
		c.options.Log.Warn("the mesh CA was replaced by one that nobody trusted before: connections fail until every agent has a new certificate",
			"from", files.Origin, "subject", next.certificate.Subject.String())
	}
	c.issuer.Store(next)
	c.options.Log.Info("mesh CA loaded", "from", files.Origin, "subject", next.certificate.Subject.String(),
		"expires", next.expires.UTC().Format(time.RFC3339), "roots", len(next.roots))
	return true, nil
}

func (c *CA) writeBundle(i *issuer) error {
	if c.options.DataDir == "" {
		return nil
	}
	path := filepath.Join(c.options.DataDir, BundleFile)
	bundle := pemfile.EncodeCertificates(i.roots...)
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, bundle) {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("trust bundle: %w", err)
	}
	if err := pemfile.Replace(path, 0o644, bundle); err != nil {
		return fmt.Errorf("trust bundle: %w", err)
	}
	return nil
}

// TrustDomain is the mesh's.
func (c *CA) TrustDomain() string { return c.options.TrustDomain }

// Bundle returns every root that the mesh trusts, the one that signs first. The caller must not change it.
func (c *CA) Bundle() []*x509.Certificate { return c.issuer.Load().roots }

// BundlePEM is the Bundle in PEM form.
func (c *CA) BundlePEM() []byte { return pemfile.EncodeCertificates(c.Bundle()...) }

// Expires is when the first certificate of the CA's own chain expires; nothing signed lives longer.
func (c *CA) Expires() time.Time { return c.issuer.Load().expires }
