package part

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/resource"
)

// Found is by what the host's rows are found.
type Found struct {
	Keys  []FoundBy
	Names []string // those that are no addresses; of all rows

	forgotten bool // there are keys that are not here
}

// FoundBy is one domain of a row.
type FoundBy struct {
	digest.Key
	Row string // its name
}

// Found reads it, once. Parts without rows have none.
func (p *Part) Found() Found {
	if p == nil {
		return Found{}
	}
	if p.found == nil || p.found.forgotten {
		p.found = findRows(p.All())
	}
	return *p.found
}

func findRows(list []*resource.Resource) *Found {
	out := &Found{}
	for _, r := range list {
		if r.Type != resource.VirtualHost {
			continue
		}
		table, _, _ := strings.Cut(r.Name, "/")
		digest.Domains(r.Name, r.Value(), func(domain string) {
			out.Keys = append(out.Keys, FoundBy{digest.KeyOf(table, domain), r.Name})
			if !isAddress(domain) && !slices.Contains(out.Names, domain) {
				out.Names = append(out.Names, domain)
			}
		})
	}
	out.Keys = slices.Clip(out.Keys)
	return out
}

func isAddress(domain string) bool {
	_, err := netip.ParseAddr(strings.Trim(domain, "[]"))
	return err == nil
}

// below says whether a name is below a pattern, "*.DOMAIN", and not it.
func below(name, pattern string) bool {
	end, is := strings.CutPrefix(pattern, "*")
	return is && name != pattern && strings.HasSuffix(name, end)
}
