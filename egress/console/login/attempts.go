package login

import (
	"net/http"
	"net/netip"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Tokens that nobody knows and that one address may have asked about, and codes that it may have taken to the issuer: so many a second, and so many at once.
const (
	perSecond     = 2
	atFirst       = 20
	mostAddresses = 4_096
)

// attempts hold back who guesses, so that the API server, or the issuer, is not asked about each. Who is logged in is not held back.
type attempts struct {
	of *lru.Cache[netip.Prefix, *rate.Limiter]
}

func newAttempts() *attempts {
	return &attempts{newCache[netip.Prefix, *rate.Limiter](mostAddresses)}
}

// left says whether an address may try once more.
func (a *attempts) left(r *http.Request) bool { return a.limiter(r).Tokens() >= 1 }

// failed counts a try that came to nothing. More than were left may have begun at the same time: all of them count.
func (a *attempts) failed(r *http.Request) { a.limiter(r).Reserve() }

// take counts a try, whatever comes of it, and says whether an address may have it.
func (a *attempts) take(r *http.Request) bool { return a.limiter(r).Allow() }

func (a *attempts) limiter(r *http.Request) *rate.Limiter {
	fresh, of := rate.NewLimiter(perSecond, atFirst), address(r)
	if known, there, _ := a.of.PeekOrAdd(of, fresh); there {
		return known
	}
	return fresh
}

// address is where a request came from: of IPv6 the network, in which everybody has as many addresses as they like.
func address(r *http.Request) netip.Prefix {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	at, bits := from.Addr().Unmap(), 64
	if at.Is4() {
		bits = 32
	}
	p, _ := at.Prefix(bits) // it has as many bits
	return p
}
