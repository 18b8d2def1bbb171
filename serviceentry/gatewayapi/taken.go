package gatewayapi

import (
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// How many listeners of ListenerSets a Gateway takes, of whoever may write some. It has at most 64 of its own.
const (
	// mostOfSets is how many there are in all. Each costs itself: a name, and its certificate.
	mostOfSets = 16384
	// alwaysOfNamespace is how many of each namespace count whatever others have.
	alwaysOfNamespace = 64
	// MostSetChains is how many have a filter chain each, which all are sent again where one changes, and a table that says of each name of the others'
	// that it is not there.
	MostSetChains = 128
	// AlwaysSetChains is how many of those of each namespace count whatever others have.
	AlwaysSetChains = 4
)

// MostChains is how many listeners of a port that end TLS in the usual way have a filter chain each (docs/adr/0120-certificates-by-name.md).
const MostChains = 32

const reasonTooMany = "TooManyListeners"

// taken is what earlier listeners of a Gateway have.
type taken struct {
	ports  map[takenPort]*portTaken
	sets   int            // how many of ListenerSets there are
	of     map[string]int // by namespace
	chains map[string]int // how many of those have a filter chain of their own, by namespace
	inAll  int            // how many these are
	// byName is the port whose listeners share a chain; 0: none has enough of them yet.
	byName uint32
}

// takenPort is a port, where what comes by UDP is apart.
type takenPort struct {
	number uint32
	udp    bool
}

// portTaken is what is taken of one.
type portTaken struct {
	families []earlier
	hosts    map[string]earlier
	tails    map[string][]earlier // patterns of ListenerSets, without "*.": the first one of each namespace
	chains   []string             // patterns of listeners that have a filter chain of their own, which takes what is below them
	found    int                  // how many are found by name, where enough are
	below    []*Listener          // those of ListenerSets
}

// earlier is a listener, and its place.
type earlier struct {
	at int
	*Listener
}

func newTaken(sets int) *taken {
	return &taken{ports: make(map[takenPort]*portTaken, 4), of: make(map[string]int, min(sets, 64)), chains: map[string]int{}}
}

func (t *taken) port(l *Listener) *portTaken {
	at := takenPort{l.Port, l.Protocol == gatewayv1.UDPProtocolType}
	p := t.ports[at]
	if p == nil {
		p = &portTaken{hosts: map[string]earlier{}, tails: map[string][]earlier{}}
		t.ports[at] = p
	}
	return p
}

// rival is the first of the earlier listeners that a ListenerSet's yields to (Listener.yield); nil where there is none.
func (t *taken) rival(l *Listener) *Listener {
	p := t.port(l)
	var first earlier
	found := func(e earlier) {
		if e.Listener != nil && (first.Listener == nil || e.at < first.at) {
			first = e
		}
	}
	for _, e := range p.families {
		if e.family() != l.family() {
			found(e)
		}
	}
	found(p.hosts[l.Host])
	if len(p.tails) > 0 {
		for i := range len(l.Host) {
			if l.Host[i] != '.' {
				continue
			}
			for _, e := range p.tails[l.Host[i+1:]] {
				if e.Set.Namespace != l.Set.Namespace {
					found(e)
					break
				}
			}
		}
	}
	return first.Listener
}

// room says why a listener of a ListenerSet that nobody else's stands against does not count: there are too many.
func (t *taken) room(l *Listener) Problem {
	t.sets++
	t.of[l.Set.Namespace]++
	if t.sets > mostOfSets && t.of[l.Set.Namespace] > alwaysOfNamespace {
		return Problem{reasonTooMany, fmt.Sprintf("the ListenerSets of the Gateway have more than %d listeners, which are all that count beside %d of each namespace", mostOfSets, alwaysOfNamespace)}
	}
	if n := t.costs(l); n > 0 && t.inAll+n > MostSetChains && t.chains[l.Set.Namespace]+n > AlwaysSetChains {
		return Problem{reasonTooMany, fmt.Sprintf("the ListenerSets of the Gateway have more than %d listeners with a filter chain each, which are all that count beside %d of each namespace: those do not that are of protocol HTTPS with one certificate, ask clients for none, "+
			"are of the one port that has most of them, and have no host below the hostname of one that has a chain", MostSetChains, AlwaysSetChains)}
	}
	return Problem{}
}

// costs is how many filter chains there are more for a listener of a ListenerSet. Of a port that may have more than MostChains, which share one, those
// count until there are so many; a pattern that has a chain has those below it have one, too.
func (t *taken) costs(l *Listener) (n int) {
	p := t.port(l)
	switch {
	case !l.endsInChain():
		return 0
	case l.foundByName() && !p.isBelowChain(l.Host):
		if t.byName == l.Port {
			return 0
		}
		return 1
	}
	n = 1
	if tail, pattern := strings.CutPrefix(l.Host, "*"); pattern && t.byName == l.Port {
		for _, found := range p.below {
			if strings.HasSuffix(found.Host, tail) {
				n++
			}
		}
	}
	return n
}

// add notes what a listener has, if it has anything.
func (t *taken) add(l *Listener) {
	if l.Set.Name != "" && l.Conflict.Is() || l.Unaccepted.Reason == string(gatewayv1.ListenerReasonUnsupportedProtocol) {
		return
	}
	p := t.port(l)
	e := earlier{p.count(), l}
	if !p.speaks(l.family()) {
		p.families = append(p.families, e)
	}
	if _, has := p.hosts[l.Host]; !has {
		p.hosts[l.Host] = e
	}
	if tail, pattern := strings.CutPrefix(l.Host, "*."); pattern && l.Set.Name != "" && !hasOne(p.tails[tail], l.Set.Namespace) {
		p.tails[tail] = append(p.tails[tail], e)
	}
	if l.Unaccepted.Is() || l.Conflict.Is() || !l.endsInChain() {
		return
	}
	t.addChain(p, l)
}

// count is how many there are, which is where one more stands.
func (p *portTaken) count() int { return len(p.hosts) }

func (p *portTaken) speaks(family gatewayv1.ProtocolType) bool {
	for _, e := range p.families {
		if e.family() == family {
			return true
		}
	}
	return false
}

func hasOne(list []earlier, ns string) bool {
	for _, e := range list {
		if e.Set.Namespace == ns {
			return true
		}
	}
	return false
}

// addChain notes a listener that is told from others by the name that TLS says.
func (t *taken) addChain(p *portTaken, l *Listener) {
	byName := l.foundByName() && !p.isBelowChain(l.Host)
	if l.Set.Name != "" {
		t.count(l, t.costs(l))
	}
	if !byName {
		if strings.HasPrefix(l.Host, "*") {
			p.chains = append(p.chains, l.Host)
		}
		return
	}
	p.found++
	if l.Set.Name != "" {
		p.below = append(p.below, l)
	}
	if t.byName == 0 && p.found > MostChains {
		t.byName = l.Port
		for _, found := range p.below {
			t.count(found, -1)
		}
	}
}

// count adds filter chains of a ListenerSet's listener.
func (t *taken) count(l *Listener, chains int) {
	t.inAll += chains
	t.chains[l.Set.Namespace] += chains
}

// endsInChain says whether it is told from the others of its port by the name that TLS says.
func (l *Listener) endsInChain() bool { return l.family() == gatewayv1.TLSProtocolType }

// foundByName says whether its certificate can be found by the name that a client says: it has one, and asks for nothing else.
func (l *Listener) foundByName() bool {
	return l.Protocol == gatewayv1.HTTPSProtocolType && !l.Passes && l.Clients == nil && len(l.Certificates) <= 1
}

// isBelowChain says whether a filter chain takes what is for a host, which is not its own.
func (p *portTaken) isBelowChain(host string) bool {
	for _, pattern := range p.chains {
		if pattern == "*" || host != pattern && strings.HasSuffix(host, pattern[1:]) {
			return true
		}
	}
	return false
}
