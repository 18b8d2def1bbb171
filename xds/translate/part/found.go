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
	Keys  []DomainKey
	Names []string // those that are no addresses; of all rows

	forgotten bool // there are keys that are not here
}

// DomainKey is one domain of a row.
type DomainKey struct {
	digest.Key
	Row string // its name
}

// Found reads it, once. Parts without rows have none.
func (p *Part) Found() Found {
	if p == nil {
		return Found{}
	}
	if p.found == nil || p.found.forgotten {
		p.found = p.findRows()
	}
	return *p.found
}

func (p *Part) findRows() *Found {
	out := &Found{}
	for _, r := range p.Resources {
		if r.Type == resource.VirtualHost {
			out.add(r.Name, r.Value())
		}
	}
	p.packed.Messages(func(t resource.Type, name, message []byte) {
		if t == resource.VirtualHost {
			out.add(string(name), message)
		}
	})
	out.Keys = slices.Clip(out.Keys)
	return out
}

// add takes the domains of a row.
func (f *Found) add(row string, message []byte) {
	table, _, _ := strings.Cut(row, "/")
	digest.Domains(row, message, func(domain string) {
		f.Keys = append(f.Keys, DomainKey{digest.KeyOf(table, domain), row})
		if !isAddress(domain) && !slices.Contains(f.Names, domain) {
			f.Names = append(f.Names, domain)
		}
	})
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
