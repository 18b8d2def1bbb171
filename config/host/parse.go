package host

import (
	"fmt"
	"net/netip"
	"strings"
)

// The limits of RFC 1035 section 2.3.4, in octets of the written form.
const (
	maxName  = 253
	maxLabel = 63
)

// Error says why a value is no host name.
type Error struct {
	Value   string // as the user wrote it, shortened to what fits a line
	Problem string
	Fix     string // what to write instead
}

func (e *Error) Error() string { return fmt.Sprintf("host %q: %s; %s", e.Value, e.Problem, e.Fix) }

// Parse reads an exact name or a wildcard of the form "*.suffix". The bare "*" is an error: use ParsePattern where
// it is allowed. The error is an *Error.
func Parse(s string) (Name, error) {
	if s == "*" {
		return "", &Error{s, `"*" alone would stand for every host`, `name the hosts, or a suffix as in "*.example.com"`}
	}
	return ParsePattern(s)
}

// ParsePattern reads what Parse reads, and Any.
func ParsePattern(s string) (Name, error) {
	if s == "*" {
		return Any, nil
	}
	n := strings.TrimSuffix(s, ".")
	rest, wildcard := strings.CutPrefix(n, "*.")
	problem, fix := check(n, rest, wildcard)
	if problem != "" {
		return "", &Error{shorten(s), problem, fix}
	}
	return Name(strings.ToLower(n)), nil
}

// Partial says whether a pattern is a wildcard whose "*" is not the whole first label: "*-api.example.com",
// "*example.com". No Name is made of it: nothing looks hosts up by a part of a label.
func Partial(s string) bool {
	rest, wild := strings.CutPrefix(s, "*")
	rest = strings.TrimPrefix(rest, "-")
	if !wild || rest == "" || rest[0] == '.' {
		return false
	}
	_, err := ParseExact(rest)
	return err == nil
}

// ParseExact reads a name that stands for one host.
func ParseExact(s string) (Name, error) {
	if strings.Contains(s, "*") {
		return "", &Error{shorten(s), "a wildcard is not allowed here", "write one host's full name"}
	}
	return ParsePattern(s)
}

// check returns an empty problem for a good name. rest is n without its wildcard.
func check(n, rest string, wildcard bool) (problem, fix string) {
	switch {
	case n == "":
		return "it is empty", `write a host name as in "api.example.com"`
	case len(n) > maxName:
		return fmt.Sprintf("it has %d characters, at most %d are allowed", len(n), maxName), "shorten it"
	case strings.Contains(n, "://"):
		return "it is a URL", "write the host alone, without scheme, path and port"
	case strings.Contains(rest, "*"):
		return `"*" may only be the whole first label`, `write it as in "*.example.com"`
	case strings.Contains(n, "/"):
		return `it holds "/"`, "write the host alone, without path or prefix length"
	}
	if _, err := netip.ParseAddr(strings.Trim(n, "[]")); err == nil {
		return "it is an IP address", "write a host name; addresses belong in the addresses or endpoints fields"
	}
	if i := strings.LastIndexByte(n, ':'); i >= 0 {
		return `it holds ":"`, fmt.Sprintf("write %q; ports belong in the ports field", n[:i])
	}
	labels := strings.Split(rest, ".")
	for _, label := range labels {
		if problem, fix = checkLabel(label); problem != "" {
			return problem, fix
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return fmt.Sprintf("its last label %q is a number", last), "write a host name; browsers and resolvers read this as an address"
	}
	return "", ""
}

// checkLabel holds a label to RFC 1123 section 2.1.
func checkLabel(label string) (problem, fix string) {
	switch {
	case label == "":
		return "it has an empty label", "remove the extra dot"
	case len(label) > maxLabel:
		return fmt.Sprintf("its label %q has %d characters, at most %d are allowed", shorten(label), len(label), maxLabel), "shorten the label"
	case label[0] == '-' || label[len(label)-1] == '-':
		return fmt.Sprintf("its label %q begins or ends with a hyphen", label), "remove the hyphen"
	}
	for _, r := range label {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-':
		case r > 0x7f:
			return fmt.Sprintf("it holds %q, which is not ASCII", r), `write the name's IDNA form (its labels begin with "xn--")`
		default:
			return fmt.Sprintf("it holds %q", r), "use letters, digits, hyphens and dots only"
		}
	}
	return "", ""
}

func shorten(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:77], "") + "..."
}
