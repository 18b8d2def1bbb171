package admission

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config/host"
)

// hostSet is names and patterns that are looked up, each as it is compared: in lower case, without the root's dot.
type hostSet struct {
	names   map[host.Name]bool
	partial []host.Name // patterns of a part of a label
}

func hostSetOf(hosts []string) hostSet {
	s := hostSet{names: make(map[host.Name]bool, len(hosts))}
	for _, h := range hosts {
		n := lowered(h)
		if s.names[n] = true; n.IsWildcard() && n != host.Any && !strings.HasPrefix(string(n), "*.") {
			s.partial = append(s.partial, n)
		}
	}
	return s
}

// covers says whether one of them is the name, or a pattern that stands for all that it does.
func (s hostSet) covers(n host.Name) bool {
	if s.names[n] || s.names[host.Any] && n != "" {
		return true
	}
	for _, rest, more := strings.Cut(string(n), "."); more; _, rest, more = strings.Cut(rest, ".") {
		if s.names[host.Name("*."+rest)] {
			return true
		}
	}
	return slices.ContainsFunc(s.partial, func(p host.Name) bool { return host.Matches(p, n) })
}
