package admission

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/host"
)

// matcher is a rule of a policy, read for comparisons.
type matcher struct {
	*v1alpha1.Rule
	names []host.Name        // of its hosts, in their order
	hosts map[host.Name]bool // the same; nil for any
}

func newMatcher(rule *v1alpha1.Rule) matcher {
	m := matcher{Rule: rule}
	if len(rule.Hosts) > 0 {
		m.hosts = map[host.Name]bool{}
	}
	for _, h := range rule.Hosts {
		n := ruleHostName(h)
		m.names = append(m.names, n)
		m.hosts[n] = true
	}
	return m
}

// ruleHostName reads a host of a rule that is known to be good: a name, a pattern, or an address.
func ruleHostName(h string) host.Name {
	if n, err := host.ParsePattern(h); err == nil {
		return n
	}
	return host.Name(h)
}

// effort bounds comparisons: what is left of it in lookups, or in a few bytes of a path each. Without any nothing covers anything.
type effort int

// covers says whether m matches all that o matches, whenever o counts from now on. It may say no where it does: patterns of
// paths and of headers are compared as they are written, and hosts one by one.
func (m matcher) covers(o matcher, w *world, left *effort) bool {
	*left -= effort(1 + len(m.Ports) + len(m.Methods))
	return w.outlives(m.Rule, o.Rule) && m.coversProtocols(o) && subset(o.Ports, m.Ports) && subset(o.Methods, m.Methods) &&
		m.coversHosts(o, left) && m.coversHeaders(o, left) && m.coversPaths(o, left)
}

// outlives says whether a counts whenever b does from now on.
func (w *world) outlives(a, b *v1alpha1.Rule) bool {
	began := a.NotBefore == nil || !a.NotBefore.AsTime().After(w.begins(b))
	return began && (a.Expires == nil || b.Expires != nil && !b.Expires.AsTime().After(a.Expires.AsTime()))
}

// subset says whether each of some values is among others, where an empty list stands for all.
func subset[T comparable](some, of []T) bool {
	if len(of) == 0 {
		return true
	}
	return len(some) > 0 && !slices.ContainsFunc(some, func(v T) bool { return !slices.Contains(of, v) })
}

// seen are the protocols that a rule matches; none for all.
func (m matcher) seen() []string {
	if len(httpFields(m.Rule)) > 0 {
		return []string{protocolHTTP}
	}
	return m.Protocols
}

func (m matcher) coversProtocols(o matcher) bool { return subset(o.seen(), m.seen()) }

// any says whether the rule is for every host.
func (m matcher) any() bool { return m.hosts == nil || m.hosts[host.Any] }

func (m matcher) coversHosts(o matcher, left *effort) bool {
	if m.any() {
		return true
	}
	for _, h := range o.names {
		up := parents(h)
		if *left -= effort(1 + len(up)); *left < 0 || !m.hosts[h] && !slices.ContainsFunc(up, func(p host.Name) bool { return m.hosts[p] }) {
			return false
		}
	}
	return o.hosts != nil
}

// parents are the wildcards that stand for all that a name or a wildcard stands for, from the narrowest on: "*.b.c" and "*.c" of
// "a.b.c".
func parents(n host.Name) (out []host.Name) {
	rest := strings.TrimPrefix(string(n), "*.")
	for {
		_, after, more := strings.Cut(rest, ".")
		if !more {
			return out
		}
		rest, out = after, append(out, host.Name("*."+after))
	}
}

func (m matcher) coversHeaders(o matcher, left *effort) bool {
	*left -= effort(len(m.Headers) * len(o.Headers))
	return !slices.ContainsFunc(m.Headers, func(h *v1alpha1.HeaderMatch) bool {
		return !slices.ContainsFunc(o.Headers, func(x *v1alpha1.HeaderMatch) bool {
			return strings.EqualFold(x.Name, h.Name) && (h.Value == "*" || x.Value == h.Value)
		})
	})
}

// coversPaths compares patterns. What denies a path denies what servers may take for the same, so that it matches more than what
// allows it.
func (m matcher) coversPaths(o matcher, left *effort) bool {
	if len(m.Paths) == 0 {
		return true
	}
	wider := o.Action == v1alpha1.Action_Deny && m.Action == v1alpha1.Action_Allow
	return len(o.Paths) > 0 && !slices.ContainsFunc(o.Paths, func(p string) bool {
		return !slices.ContainsFunc(m.Paths, func(q string) bool {
			*left -= effort(1 + len(p)*len(q)/16)
			return q == "/**" || *left > 0 && !wider && coversSegments(strings.Split(q, "/"), strings.Split(p, "/"))
		})
	})
}

// coversSegments says whether one pattern matches all that another does, segment by segment: behind the last "**" that was taken,
// one segment more is given to it as long as the rest does not fit.
func coversSegments(wide, narrow []string) bool {
	w, n, last, given := 0, 0, -1, 0
	for n < len(narrow) {
		switch {
		case w < len(wide) && wide[w] == "**":
			last, given = w, n
			w++
		case w < len(wide) && coversSegment(wide[w], narrow[n]):
			w, n = w+1, n+1
		case last >= 0:
			given++
			w, n = last+1, given
		default:
			return false
		}
	}
	for w < len(wide) && wide[w] == "**" {
		w++
	}
	return w == len(wide)
}

func coversSegment(wide, narrow string) bool {
	return narrow != "**" && (wide == narrow || wide == "*" && narrow != "")
}
