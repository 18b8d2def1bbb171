package mesh

import (
	"slices"
	"strings"
)

// TrustDomains are the mesh's trust domain and its aliases, which are the same to it.
func (c *Config) TrustDomains() []string {
	return append([]string{c.TrustDomain}, c.TrustDomainAliases...)
}

// Elsewhere says whether an identity (spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT) is of one of some trust domains, and of no account of a namespace.
func Elsewhere(domains []string, id, ns string) bool {
	return slices.ContainsFunc(domains, func(d string) bool {
		rest, of := strings.CutPrefix(id, "spiffe://"+d+"/")
		return of && !strings.HasPrefix(rest, "ns/"+ns+"/sa/")
	})
}
