package kubetoken

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/xds/identity"
)

// claims is what a token says of itself, before anybody verified it.
type claims struct {
	expires time.Time // zero: it does not say
}

// inspect reads a token's own words. They prove nothing, and serve only to turn away what the API could not accept
// either, without asking it, and to forget an answer when the token expires.
func inspect(token string, now time.Time) (claims, *identity.Rejected) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, rejection("it is not a JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}, rejection("it is not a JWT")
	}
	var says struct {
		Expiry   *float64  `json:"exp"` // seconds since 1970
		Audience audiences `json:"aud"`
	}
	if err := json.Unmarshal(payload, &says); err != nil {
		return claims{}, rejection("it is not a JWT")
	}
	if !slices.Contains(says.Audience, Audience) {
		return claims{}, rejection(fmt.Sprintf("its audience is %q, want %q", []string(says.Audience), Audience))
	}
	if says.Expiry == nil || *says.Expiry <= 0 || *says.Expiry > maxSeconds {
		return claims{}, rejection("it has no expiry")
	}
	c := claims{expires: time.Unix(int64(*says.Expiry), 0)}
	if !now.Before(c.expires) {
		return claims{}, rejection(fmt.Sprintf("it expired at %s; a new one is needed", c.expires.UTC().Format(time.RFC3339)))
	}
	return c, nil
}

// maxSeconds is the year 9999, after which times have no form.
const maxSeconds = 253402300799

// audiences is a string or a list of them (RFC 7519, 4.1.3).
type audiences []string

func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}
