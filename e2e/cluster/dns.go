package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// inCluster is the part of CoreDNS's configuration about names of the cluster. Its zones are a server of their own,
// for the plugins of one have a fixed order in which "template" comes before "kubernetes".
const inCluster = `cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {
	errors
	ready
	health
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		pods insecure
		ttl 5
	}
	loadbalance
}
`

// corefile is CoreDNS's configuration. Without upstreams, names outside the cluster do not exist.
func corefile(upstreams []netip.AddrPort) string {
	var b strings.Builder
	b.WriteString(inCluster + ".:53 {\n\terrors\n")
	if len(upstreams) == 0 {
		b.WriteString("\ttemplate ANY ANY {\n\t\trcode NXDOMAIN\n\t}\n}\n")
		return b.String()
	}
	b.WriteString("\tforward .")
	for _, u := range upstreams {
		b.WriteString(" " + u.String())
	}
	// What is outside is made by tests, and changes: an answer must not be remembered for long.
	b.WriteString("\n\tcache 2\n}\n")
	return b.String()
}

// SetDNS makes CoreDNS ask these servers about names outside the cluster, and returns when only pods that do so are
// left. Without any, such names do not exist.
func (c *Cluster) SetDNS(ctx context.Context, upstreams ...netip.AddrPort) error {
	v := newValues()
	v.Corefile = corefile(upstreams)
	manifest, err := render("coredns.yaml", v)
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, manifest); err != nil {
		return fmt.Errorf("CoreDNS: %w", err)
	}
	if _, err := c.kubectl(ctx, nil, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=2m"); err != nil {
		return fmt.Errorf("CoreDNS: %w", err)
	}
	if err := poll(ctx, func() error { return answers(ctx) }); err != nil {
		return fmt.Errorf("the cluster's DNS service: %w", err)
	}
	return nil
}

// answers asks the DNS service by its cluster address: the rules for a service come some moments after its pods.
func answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(DNSAddr.String(), "53"))
	}}
	_, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	return err
}
