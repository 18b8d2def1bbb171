package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/admission"
)

// Source feeds configuration: all of it first, then what changes. Findings are everything that is wrong at that
// moment.
type Source interface {
	Run(ctx context.Context, out func(changes []serviceentry.Change, findings []admission.Finding)) error
}

// Config says how a control plane runs.
type Config struct {
	Source         Source
	MeshConfigFile string // "" for the defaults
	DataDir        string
	CACertsDir     string // in the layout of Istio's cacerts; "" for a root of its own
	CertTTL        time.Duration
	Hosts          []string // names that the secure port is reached by, beside the usual ones

	XDSAddr    string // plaintext xDS, loopback only; "" for none
	SecureAddr string // xDS, certificates and audit records, over TLS
	AdminAddr  string // health, metrics, debugging

	// AuditSocket is where the audit server listens; "" when records are not taken.
	AuditSocket string

	Log *slog.Logger
	// Listening is called once all ports are open.
	Listening func(Addresses)
}

// Addresses are those that the ports really got.
type Addresses struct{ XDS, Secure, Admin string }

// WrongSetting is an error that the caller mends by giving another Config.
type WrongSetting struct{ error }

// Unwrap gives what is wrong.
func (e WrongSetting) Unwrap() error { return e.error }

// loopbackOnly refuses an address that others than this machine could reach.
func loopbackOnly(flag, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s %q: %w", flag, addr, err)
	}
	if ip, err := netip.ParseAddr(host); (err == nil && ip.IsLoopback()) || host == "localhost" {
		return nil
	}
	return fmt.Errorf("%s %q: this port has no encryption and takes clients at their word, so it must be on loopback, such as 127.0.0.1:15010", flag, addr)
}
