package tunnels

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Change are resources of one type that Envoy has taken, and those that it has lost.
type Change struct {
	Type   string
	Names  []string
	Bodies [][]byte // one for each name; shorter: the others are gone
}

// OfLeaving is what of a change is about what leaves from a proxy that is no exit: its policies (xds/envoy's FilterRoot and FilterOwn), and its tables. Listeners ask them, and
// decide nothing.
func (c Change) OfLeaving() Change {
	out := Change{Type: c.Type}
	for i, name := range c.Names {
		policies := c.Type == extensionType && (name == rootPolicies || name == ownPolicies)
		if !policies && c.Type != rowType && c.Type != routeType {
			continue
		}
		if out.Names = append(out.Names, name); i < len(c.Bodies) {
			out.Bodies = append(out.Bodies, c.Bodies[i])
		}
	}
	return out
}

const (
	rootPolicies = "sallyport.policies.root"
	ownPolicies  = "sallyport.policies.own"
)

// The types of resources that say what a gateway's table answers.
const (
	prefix        = "type.googleapis.com/envoy.config."
	extensionType = prefix + "core.v3.TypedExtensionConfig"
	routeType     = prefix + "route.v3.RouteConfiguration"
	rowType       = prefix + "route.v3.VirtualHost"
	listenerType  = prefix + "listener.v3.Listener"
)

// ofNamespace and ofRoot begin the names of what policies that mean a namespace's clients are kept by: its own ones, and the root namespace's (xds/translate).
// The root namespace's for whoever has none named is for everybody.
const (
	ofNamespace = "own/"
	ofRoot      = "root/"
	ofSeveral   = "root=" // with the policies' names: of namespaces that are told by these alone
	everybody   = "*"
)

// scopeOf is what a change is about, and whether it is about anything. A row is named TABLE/HOST:PORT (wire.VhostName).
func scopeOf(c Change) (s scope, about bool) {
	switch c.Type {
	case rowType:
		s.hosts = map[string]bool{}
		for _, name := range c.Names {
			_, authority, _ := strings.Cut(name, "/")
			host := withoutPort(authority)
			if host == "" || host[0] == '*' && !strings.HasPrefix(host, "*.") {
				return scope{all: true}, true
			}
			s.hosts[host] = true
		}
		for _, body := range c.Bodies {
			fields(body, rowDomains, func(domain []byte) {
				if address := strings.Trim(string(domain), "[]"); isAddress(address) { // by which connections ask for it
					s.hosts[address] = true
				}
			})
		}
	case extensionType:
		s.namespaces = map[string]bool{}
		for _, name := range c.Names {
			ns, means := strings.CutPrefix(name, ofNamespace)
			if !means {
				ns, means = strings.CutPrefix(name, ofRoot)
			}
			if !means || ns == everybody {
				return scope{all: true}, true
			}
			s.namespaces[ns] = true
		}
	case routeType, listenerType:
		return scope{all: true}, len(c.Names) > 0
	}
	return s, len(c.Names) > 0 && (s.hosts != nil || s.namespaces != nil)
}

// rowDomains is the field of a VirtualHost.
const rowDomains = 2

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// withoutPort is a row's host as questions have it. A port that is none is part of the host: an IPv6 address may stand without brackets, but never
// without its port.
func withoutPort(authority string) string {
	host := authority
	if i := strings.LastIndexByte(authority, ':'); i >= 0 {
		if _, err := strconv.ParseUint(authority[i+1:], 10, 16); err == nil {
			host = authority[:i]
		}
	}
	return strings.Trim(host, "[]")
}

// boundaries are when rules begin or end, by the name of the resource that has them. They are read off it as they stand there, in RFC 3339
// (xds/envoy's Before and NotBefore); a time in a rule's reason only has it asked once more.
type boundaries map[string][]time.Time

var timeText = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z`)

func (t boundaries) set(c Change) {
	if c.Type != extensionType {
		return
	}
	for i, name := range c.Names {
		delete(t, name)
		if i >= len(c.Bodies) {
			continue
		}
		at := map[time.Time]bool{}
		for _, text := range timeText.FindAll(c.Bodies[i], -1) {
			if when, err := time.Parse(time.RFC3339, string(text)); err == nil {
				at[when] = true
			}
		}
		if len(at) > 0 {
			t[name] = slices.SortedFunc(maps.Keys(at), time.Time.Compare)
		}
	}
}

// passed are the resources with a time after the first and not after the second.
func (t boundaries) passed(after, until time.Time) (names []string) {
	for name, times := range t {
		if i := firstAfter(times, after); i < len(times) && !times[i].After(until) {
			names = append(names, name)
		}
	}
	return names
}

func (t boundaries) between(after, until time.Time) bool { return len(t.passed(after, until)) > 0 }

// next is the first time after one; zero: there is none.
func (t boundaries) next(after time.Time) (next time.Time) {
	for _, times := range t {
		if i := firstAfter(times, after); i < len(times) && (next.IsZero() || times[i].Before(next)) {
			next = times[i]
		}
	}
	return next
}

func firstAfter(times []time.Time, after time.Time) int {
	i, found := slices.BinarySearchFunc(times, after, time.Time.Compare)
	if found {
		i++
	}
	return i
}
