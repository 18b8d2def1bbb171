package redirect

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// FlagError is a value that cannot be used, named by its flag.
type FlagError struct {
	Flag, Value string
	Err         error
}

func (e *FlagError) Error() string {
	return fmt.Sprintf("--%s %q: %v", e.Flag, e.Value, e.Err)
}

func (e *FlagError) Unwrap() error { return e.Err }

// wildcard stands for everything in Istio's lists.
const wildcard = "*"

// maxListed bounds each list: every entry costs each new connection a comparison.
const maxListed = 1024

// splitList cuts a comma-separated list. Blanks and empty entries are dropped, as Istio does.
func splitList(value string) ([]string, error) {
	var out []string
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			out = append(out, entry)
		}
	}
	if len(out) > maxListed {
		return nil, fmt.Errorf("%d entries, at most %d are allowed", len(out), maxListed)
	}
	return out, nil
}

// parsePort reads one port, 1 to 65535.
func parsePort(value string) (uint16, error) {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port (1 to 65535)", value)
	}
	return uint16(n), nil
}

// parsePorts reads "80,8000:8080".
func parsePorts(value string) ([]PortRange, error) {
	entries, err := splitList(value)
	if err != nil {
		return nil, err
	}
	var out []PortRange
	for _, entry := range entries {
		if entry == wildcard {
			return nil, errors.New("'*' is not allowed here, list the ports")
		}
		first, last, isRange := strings.Cut(entry, ":")
		var r PortRange
		if r.First, err = parsePort(first); err != nil {
			return nil, err
		}
		r.Last = r.First
		if isRange {
			if r.Last, err = parsePort(last); err != nil {
				return nil, err
			}
		}
		if r.Last < r.First {
			return nil, fmt.Errorf("%q ends before it begins", entry)
		}
		out = append(out, r)
	}
	return out, nil
}

// parsePortChoice reads "*" or a list of ports.
func parsePortChoice(value string) (Ports, error) {
	if strings.TrimSpace(value) == wildcard {
		return Ports{All: true}, nil
	}
	list, err := parsePorts(value)
	return Ports{List: list}, err
}

// parsePrefixes reads "10.0.0.0/8,2001:db8::/32,192.0.2.1". An address alone is a range of one; bits behind the mask are dropped.
func parsePrefixes(value string) ([]netip.Prefix, error) {
	entries, err := splitList(value)
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, entry := range entries {
		prefix, err := parsePrefix(entry)
		if err != nil {
			return nil, err
		}
		out = append(out, prefix)
	}
	return out, nil
}

func parsePrefix(entry string) (netip.Prefix, error) {
	if entry == wildcard {
		return netip.Prefix{}, errors.New("'*' is not allowed here, list the ranges")
	}
	prefix, err := netip.ParsePrefix(entry)
	if err != nil {
		addr, addrErr := netip.ParseAddr(entry)
		if addrErr != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is not a range such as 10.0.0.0/8 or 2001:db8::/32", entry)
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 range written as IPv6, write it as IPv4", entry)
	}
	return prefix.Masked(), nil
}

// parseRanges reads "*" or a list of ranges.
func parseRanges(value string) (Ranges, error) {
	if strings.TrimSpace(value) == wildcard {
		return Ranges{All: true}, nil
	}
	list, err := parsePrefixes(value)
	return Ranges{List: list}, err
}

// parseIDs reads a list of numeric user or group ids. 4294967295 means "no id" to the kernel and is refused.
func parseIDs(value string) ([]uint32, error) {
	entries, err := splitList(value)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("at least one id is needed, or the proxy's own traffic would be caught")
	}
	var out []uint32
	for _, entry := range entries {
		n, err := strconv.ParseUint(entry, 10, 32)
		if err != nil || n == 1<<32-1 {
			return nil, fmt.Errorf("%q is not a numeric id", entry)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

// interfaceName is what Linux and iptables both accept (IFNAMSIZ is 16 with the final zero); "+" at the end is iptables' wildcard.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}\+?$`)

func parseInterfaces(value string) ([]string, error) {
	entries, err := splitList(value)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !interfaceName.MatchString(entry) || len(entry) > 15 {
			return nil, fmt.Errorf("%q is not an interface name (1 to 15 letters, digits, '_', '.', ':', '@' or '-')", entry)
		}
	}
	return entries, nil
}
