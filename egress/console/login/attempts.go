package login

import (
	"net"
	"net/http"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Tokens that are not known yet and that one address may have asked about: so many a second, and so many at once.
const (
	perSecond     = 2
	atFirst       = 20
	mostAddresses = 4_096
)

// attempts hold back who guesses tokens, so that the API server is not asked about each.
type attempts struct {
	of *lru.Cache[string, *rate.Limiter]
}

func newAttempts() *attempts {
	of, err := lru.New[string, *rate.Limiter](mostAddresses)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &attempts{of}
}

func (a *attempts) allowed(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	fresh := rate.NewLimiter(perSecond, atFirst)
	if known, there, _ := a.of.PeekOrAdd(host, fresh); there {
		return known.Allow()
	}
	return fresh.Allow()
}
