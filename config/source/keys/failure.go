package keys

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strconv"
)

// failure is why a set cannot be fetched, in words that tell of it no more than those may know who asked for it, and that are the same
// whenever the same goes wrong. The error says more, for the log.
type failure struct {
	words string
	error
}

func (f failure) Unwrap() error { return f.error }

func (f failure) because(err error) error { return failure{f.words, err} }

var (
	leadsInside = failure{words: "it leads inside, to an address that sallyport.dns.allowPrivate does not name"}
	tooLarge    = failure{words: "it answers more than " + strconv.Itoa(largest>>20) + " MiB"}
	redirected  = failure{words: "it redirects too often"}
	nowhere     = failure{words: "it leads to what is no http or https URL"}
	undescribed = failure{words: "it names no jwks_uri at " + wellKnown}
	noKeys      = failure{words: "it answers no set of keys by which tokens can be verified"}
)

// answers is that somebody answers by another status than 200.
func answers(status int) failure { return failure{words: "it answers " + strconv.Itoa(status)} }

// reason says in which way a fetch failed.
func reason(err error) string {
	var (
		known failure
		name  *net.DNSError
		trust *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &known):
		return known.words
	case errors.As(err, &name):
		return "its name is not resolved"
	case errors.As(err, &trust):
		return "its certificate is not trusted"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "it does not answer in time"
	default:
		return "it cannot be reached"
	}
}
