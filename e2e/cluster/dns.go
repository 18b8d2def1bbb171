package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
)

// corefile is CoreDNS's configuration. Without upstreams, names outside the cluster do not exist.
func corefile(upstreams []netip.AddrPort) string {
	var b strings.Builder
	b.WriteString(".:53 {\n\terrors\n\tready\n\thealth {\n\t\tlameduck 1s\n\t}\n")
	b.WriteString("\tkubernetes cluster.local in-addr.arpa ip6.arpa {\n\t\tpods insecure\n\t\tfallthrough in-addr.arpa ip6.arpa\n\t\tttl 5\n\t}\n")
	if len(upstreams) > 0 {
		b.WriteString("\tforward .")
		for _, u := range upstreams {
			b.WriteString(" " + u.String())
		}
		// What is outside is made by tests, and changes: an answer must not be remembered for long.
		b.WriteString("\n\tcache 2\n")
	} else {
		b.WriteString("\ttemplate ANY ANY {\n\t\trcode NXDOMAIN\n\t}\n")
	}
	b.WriteString("\tloadbalance\n}\n")
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
	return nil
}
