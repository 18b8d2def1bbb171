package controlplane

import (
	"fmt"
	"net"
)

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
	}{
		{"--xds-addr", p.cfg.XDSAddr, &l.xds},
		{"--secure-xds-addr", p.cfg.SecureAddr, &l.secure},
		{"--admin-addr", p.cfg.AdminAddr, &l.admin},
		{"--health-addr", p.cfg.HealthAddr, &l.health},
		{"--webhook-addr", webhooks, &l.webhooks},
	} {
		if x.addr == "" {
			continue
		}
		if *x.to, err = net.Listen("tcp", x.addr); err != nil {
			l.close()
			return l, WrongSetting{fmt.Errorf("%s %q: %w", x.flag, x.addr, err)}
		}
	}
	return l, nil
}
