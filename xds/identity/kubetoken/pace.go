package kubetoken

import (
	"net/netip"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Tokens that the API does not know and that one address may have asked about: so many a second, and so many at once.
const (
	rejectedPerSecond = 50
	rejectedAtOnce    = 500
	mostAddresses     = 4_096
)

// pace holds back addresses from which tokens come that nobody knows, so that the API server is not asked about each. The zero prefix is nobody in particular, and is not.
type pace struct {
	of *lru.Cache[netip.Prefix, *rate.Limiter]
}

func newPace() (*pace, error) {
	of, err := lru.New[netip.Prefix, *rate.Limiter](mostAddresses)
	return &pace{of}, err
}

// left says whether another token of an address may be asked about.
func (p *pace) left(from netip.Prefix) bool {
	limiter, ok := p.of.Get(from)
	return !ok || limiter.Tokens() >= 1
}

// rejected counts one that came to nothing.
func (p *pace) rejected(from netip.Prefix) {
	if !from.IsValid() {
		return
	}
	limiter := rate.NewLimiter(rejectedPerSecond, rejectedAtOnce)
	if known, there, _ := p.of.PeekOrAdd(from, limiter); there {
		limiter = known
	}
	limiter.Allow()
}
