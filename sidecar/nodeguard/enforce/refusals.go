package enforce

import (
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/golang-lru/v2"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
	"github.com/sallyport/sallyport/sidecar/nodeguard/kernel"
)

// How many different refusals are remembered, and for how long one is not said again.
const (
	refusalsKept = 4096
	sayAgain     = time.Minute
)

// Refusals writes samples to the log.
type Refusals struct {
	guard *Guard
	log   *slog.Logger
	said  *lru.Cache[kernel.Sample, time.Time]
}

// Refusals gives what writes this guard's samples to its log. One pod's refusals by one destination are said once a
// minute; the counters have all of them.
func (g *Guard) Refusals() *Refusals {
	said, err := lru.New[kernel.Sample, time.Time](refusalsKept)
	if err != nil {
		panic(err) // the size is wrong
	}
	return &Refusals{guard: g, log: g.log, said: said}
}

// Take writes a sample to the log, unless it was said lately.
func (r *Refusals) Take(s kernel.Sample) {
	now := time.Now()
	if last, said := r.said.Peek(s); said && now.Sub(last) < sayAgain {
		return
	}
	r.said.Add(s, now)
	log := r.log
	owner, known := r.guard.owner(s.Source)
	switch {
	case known && s.Why == nodeguard.CounterSpoofed:
		log = log.With("hint", "the node's route to "+owner.String()+" leads elsewhere: another pod uses its address, or the network plugin "+
			"routes like that, which --spoofed-sources=allow accepts")
	case known:
		log = log.With("pod", owner.String())
	}
	destination := s.Destination.String()
	if s.Port != 0 {
		destination = netip.AddrPortFrom(s.Destination, s.Port).String()
	}
	log.Info("refused to leave the node", "why", s.Why, "source", s.Source.String(), "destination", destination, "protocol", protocolName(s.Protocol))
}

// owner is whose address it is, as far as the kernel's plan says.
func (g *Guard) owner(a netip.Addr) (nodeguard.Owner, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.plan == nil {
		return nodeguard.Owner{}, false
	}
	owner, known := g.plan.Pods[a]
	return owner, known
}

func protocolName(p uint8) string {
	switch p {
	case 1, 58:
		return "icmp"
	case 6:
		return "tcp"
	case 17:
		return "udp"
	case 132:
		return "sctp"
	default:
		return strconv.Itoa(int(p))
	}
}
