package name

import (
	"fmt"
	"net/netip"
	"strings"
)

// TypeURL is the xDS type of the resource.
const TypeURL = "type.googleapis.com/sallyport.dnsproxy.v1.Name"

// Name says how one host is answered.
type Name struct {
	// Host is the name, or "*.DOMAIN" for all names below DOMAIN at any depth. Case does not matter.
	Host string
	// Addresses are answered to A and AAAA questions, in this order; mostly they are virtual ones. A host without
	// any is known but not answered from the table: the question goes upstream.
	Addresses []netip.Addr
	// TTL is how long an answer may be kept, in seconds. 0: the resolver's default.
	TTL uint32
	// Aliases answer the same as Host. A host of its own wins over an alias that reads the same.
	Aliases []string
	// Namespace is set of what the pods of one namespace are answered instead of what all are, at a node: with neither addresses nor aliases
	// the host is known there, and the question goes upstream.
	Namespace string `json:",omitempty"`
	// Defaults is set where Host is Everything, and only there: then nothing else is.
	Defaults *Defaults `json:",omitempty"`
}

// Resource is the name of its resource: HOST, or NAMESPACE/HOST.
func (n Name) Resource() string {
	if n.Namespace == "" {
		return n.Host
	}
	return n.Namespace + "/" + n.Host
}

// Validate says why n cannot be a line of the name table, or what there is beside its lines.
func (n Name) Validate() error {
	if n.Defaults != nil {
		if n.Host != Everything || len(n.Addresses)+len(n.Aliases)+len(n.Namespace) > 0 {
			return fmt.Errorf("name %q: defaults: only %q says what becomes of other names, and has no addresses or aliases", n.Host, Everything)
		}
		if err := n.Defaults.validate(); err != nil {
			return fmt.Errorf("name %q: defaults: %w", n.Host, err)
		}
		return nil
	}
	if err := checkHost(n.Host); err != nil {
		return fmt.Errorf("name %q: host: %w", n.Host, err)
	}
	if strings.Contains(n.Namespace, "/") {
		return fmt.Errorf("name %q: namespace %q: must be the name of one", n.Host, n.Namespace)
	}
	for i, alias := range n.Aliases {
		if err := checkHost(alias); err != nil {
			return fmt.Errorf("name %q: aliases[%d] %q: %w", n.Host, i, alias, err)
		}
	}
	for i, addr := range n.Addresses {
		if !addr.IsValid() || addr.Zone() != "" {
			return fmt.Errorf("name %q: addresses[%d] %q: not an IP address; write it without zone or port", n.Host, i, addr)
		}
	}
	return nil
}

// checkHost refuses what has no place in a DNS message (RFC 1035 section 2.3.4) and what would need escapes there.
func checkHost(host string) error {
	host = strings.TrimSuffix(host, ".")
	if host == "" {
		return fmt.Errorf("is empty; a host name is needed")
	}
	if len(host) > 253 {
		return fmt.Errorf("is %d characters long; 253 is the most", len(host))
	}
	for i, label := range strings.Split(host, ".") {
		if len(label) == 0 || len(label) > 63 {
			return fmt.Errorf("has a label of %d characters; 1 to 63 are allowed", len(label))
		}
		if label == "*" && i == 0 && len(host) > 1 {
			continue
		}
		for _, c := range []byte(label) {
			if c <= ' ' || c >= 0x7f || strings.IndexByte(`*\"();@$,/:`, c) >= 0 {
				return fmt.Errorf("holds the character %q; letters, digits, '-' and '_' are allowed, and '*' as the whole first label", c)
			}
		}
	}
	return nil
}
