package route

import (
	"slices"
	"strings"
)

// ClaimMatch is about one claim of a request's token, which a gateway verified: a text, or a list of which one text has to match. A claim that is
// not there, or is anything else, is no match.
type ClaimMatch struct {
	Path    []string // a claim, and those within it
	Text    Text
	Without bool `json:",omitempty"` // turns it round (withoutHeaders)
}

// claims begins the names of headers that stand for claims, in any case:
// https://istio.io/latest/docs/reference/config/networking/virtual-service/#HTTPMatchRequest
const claims = "@request.auth.claims"

// ClaimPath reads "@request.auth.claims.a.b" and "@request.auth.claims[a][b]"; false for what is no claim. The second form takes names with dots.
func ClaimPath(header string) (path []string, ok bool) {
	if len(header) <= len(claims) || !strings.EqualFold(header[:len(claims)], claims) {
		return nil, false
	}
	rest := header[len(claims):]
	switch inner, closed := strings.CutSuffix(rest, "]"); {
	case rest[0] == '.':
		path = strings.Split(rest[1:], ".")
	case rest[0] == '[' && closed:
		path = strings.Split(inner[1:], "][")
	}
	return path, len(path) > 0 && !slices.Contains(path, "")
}

// At says whether the match counts at a place: one that asks for claims does where tokens are read.
func (m *HTTPMatch) At(p Scope) bool {
	return (len(m.Claims) == 0 || p.ReadsTokens) && m.Where.At(p)
}

func (c *ClaimMatch) holds(r *Request) bool {
	r.TokenAsked()
	var texts []string
	if r.Claims != nil {
		texts = r.Claims(c.Path)
	}
	return slices.ContainsFunc(texts, c.Text.Matches) != c.Without
}
