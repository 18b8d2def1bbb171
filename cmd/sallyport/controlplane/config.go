package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

// Source feeds configuration: all of it first, then what changes, with what is newly wrong. Findings are everything
// that is wrong at that moment.
type Source interface {
	Findings() []admission.Finding
	Run(ctx context.Context, out func(changes []config.Change, findings []admission.Finding)) error
}

// Config says how a control plane runs.
type Config struct {
	Source         Source   // of a control plane without a cluster
	Cluster        *Cluster // or nil
	MeshConfigFile string   // "" for the defaults
	DataDir        string
	ForwardFor     string // the namespace that a forward proxy acts for, as in "up"; explain answers for it. "": for sidecars
	CACertsDir     string // in the layout of Istio's cacerts; "" for a root of its own
	CertTTL        time.Duration
	MachineGrace   time.Duration // how long a machine that left stays an endpoint; 0: machines.Grace
	Hosts          []string      // names that the secure port is reached by, beside the usual ones

	XDSAddr    string // plaintext xDS, loopback only; "" for none
	SecureAddr string // xDS, certificates and audit records, over TLS
	AdminAddr  string // health, metrics, debugging
	HealthAddr string // health and metrics only; "" for none

	// AuditSocket is where the audit server listens, or AuditAddress in a cluster; "" when records are not taken.
	AuditSocket, AuditAddress string

	Log *slog.Logger
	// Listening is called once all ports are open.
	Listening func(Addresses)
}

// AuditAccount is the service account of the audit server in a cluster.
const AuditAccount = "sallyport-audit"

// Addresses are those that the ports really got.
type Addresses struct{ XDS, Secure, Admin, Health, Webhooks string }

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
