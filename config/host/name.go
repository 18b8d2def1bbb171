package host

import (
	"cmp"
	"strings"
)

// Any is the pattern that matches every host.
const Any Name = "*"

// Name is an exact host name ("api.example.com"), a wildcard ("*.example.com") or Any, in lower case and without
// the root's dot. Make one with Parse or ParsePattern.
type Name string

// String gives the name as it is written in Envoy's configuration.
func (n Name) String() string { return string(n) }

// IsWildcard says whether n stands for more than one host.
func (n Name) IsWildcard() bool { return n != "" && n[0] == '*' }

// Suffix is the part of a wildcard that hosts must end with, with its dot: ".example.com". It is empty for Any
// and for exact names.
func (n Name) Suffix() string {
	if !n.IsWildcard() {
		return ""
	}
	return string(n[1:])
}

// Matches says whether every host that host stands for is one of those that pattern stands for: a wildcard covers
// names of any depth below its suffix, but not the suffix itself (RFC 4592 section 2.2.1 and Istio agree here).
func Matches(pattern, host Name) bool {
	if !pattern.IsWildcard() {
		return pattern == host
	}
	if pattern == Any {
		return host != ""
	}
	// "*.b.c" as host has the suffix ".b.c" too, which is how it matches itself and the wider "*.c".
	return len(host) >= len(pattern) && strings.HasSuffix(string(host), pattern.Suffix())
}

// Overlap says whether there is a host that both patterns match.
func Overlap(a, b Name) bool { return Matches(a, b) || Matches(b, a) }

// Compare orders names by how specific they are: exact names, then wildcards from the longest suffix to the
// shortest, then Any; equals in alphabetical order. The first of a sorted list that matches a host is the one that
// Envoy's virtual hosts would choose.
func Compare(a, b Name) int {
	if aw, bw := a.IsWildcard(), b.IsWildcard(); aw != bw {
		if aw {
			return 1
		}
		return -1
	} else if aw {
		if c := cmp.Compare(len(b), len(a)); c != 0 {
			return c
		}
	}
	return cmp.Compare(a, b)
}
