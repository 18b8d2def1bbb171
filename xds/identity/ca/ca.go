package ca

import (
	"bytes"
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
	// DataDir is the controller's data folder; made when missing. The trust bundle is written there.
	DataDir string
	// CACertsDir, when not empty, is a folder with ca-cert.pem, ca-key.pem, root-cert.pem and cert-chain.pem to load
	// in place of making a root.
	CACertsDir string
	// TrustDomain is the only one that certificates are signed for; empty is identity.DefaultTrustDomain.
	TrustDomain string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// CA signs certificates. All its methods may be called at the same time.
type CA struct {
	options Options
	reload  sync.Mutex
	issuer  atomic.Pointer[issuer]
}

// Open loads the CA that the options name, making a self-signed root when the data folder has none, and writes the
// trust bundle. Several controllers may open the same folder at the same time: they get the same root.
func Open(o Options) (*CA, error) {
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
	if o.DataDir == "" {
		return nil, errors.New("mesh CA: no data folder given")
	}
	if err := os.MkdirAll(o.DataDir, 0o755); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	c := &CA{options: o}
	if _, err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads key, chain and roots again and takes them over, all or nothing: after an error the CA goes on with
// what it had. It reports whether anything changed.
func (c *CA) Reload() (changed bool, err error) {
	c.reload.Lock()
	defer c.reload.Unlock()
	next, err := c.read()
	if err != nil {
		return false, fmt.Errorf("mesh CA: %w", err)
	}
	if err := c.writeBundle(next); err != nil {
		return false, err
	}
	if last := c.issuer.Load(); last != nil && last.equal(next) {
		return false, nil
	}
	c.issuer.Store(next)
	c.options.Log.Info("mesh CA loaded", "subject", next.certificate.Subject.String(),
		"expires", next.expires.UTC().Format(time.RFC3339), "roots", len(next.roots))
	return true, nil
}

func (c *CA) read() (*issuer, error) {
	if c.options.CACertsDir != "" {
		return readCACerts(c.options.CACertsDir, c.options.Now())
	}
	return readSelfSigned(filepath.Join(c.options.DataDir, "ca"), c.options.TrustDomain, c.options.Now())
}

func (c *CA) writeBundle(i *issuer) error {
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
