package controlplane

import (
	"fmt"
	"net"
	"time"

	"github.com/sallyport/sallyport/xds/netcap"
)

// How many connections a port takes. A pod's agent needs one; many may come from one address where nodes or clusters
// hide their pods behind theirs.
var (
	proxyLimits   = netcap.Limits{All: 50_000, Each: 512}
	webhookLimits = netcap.Limits{All: 2_048, Each: 512} // API servers
	pageLimits    = netcap.Limits{All: 512, Each: 32}
)

// patience is how long a client may take for its handshake, and be connected without asking anything.
var patience = 10 * time.Second

// listeners are the open ports; nil for those that the config leaves out.
type listeners struct{ xds, secure, admin, health, webhooks net.Listener }

func (l listeners) addresses() Addresses {
	text := func(l net.Listener) string {
		if l == nil {
			return ""
		}
		return l.Addr().String()
	}
	return Addresses{XDS: text(l.xds), Secure: text(l.secure), Admin: text(l.admin), Health: text(l.health), Webhooks: text(l.webhooks)}
}

func (l listeners) close() {
	for _, open := range []net.Listener{l.xds, l.secure, l.admin, l.health, l.webhooks} {
		if open != nil {
			_ = open.Close()
		}
	}
}

func (p *plane) open() (l listeners, err error) {
	webhooks := ""
	if p.cluster != nil {
		webhooks = p.cluster.WebhookAddr
	}
	for _, x := range []struct {
		flag, addr string
		to         *net.Listener
		limits     netcap.Limits
	}{
		{"--xds-addr", p.cfg.XDSAddr, &l.xds, proxyLimits},
		{"--secure-xds-addr", p.cfg.SecureAddr, &l.secure, proxyLimits},
		{"--admin-addr", p.cfg.AdminAddr, &l.admin, pageLimits},
		{"--health-addr", p.cfg.HealthAddr, &l.health, pageLimits},
		{"--webhook-addr", webhooks, &l.webhooks, webhookLimits},
	} {
		if x.addr == "" {
			continue
		}
		open, err := net.Listen("tcp", x.addr)
		if err != nil {
			l.close()
			return l, WrongSetting{fmt.Errorf("%s %q: %w", x.flag, x.addr, err)}
		}
		x.limits.Refused = func(peer net.Addr) {
			p.log.Debug("a connection too many was closed", "port", x.flag, "from", peer.String())
		}
		*x.to = netcap.Listen(open, x.limits)
	}
	return l, nil
}
