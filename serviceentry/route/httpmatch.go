package route

import (
	"slices"
	"strings"
)

// HTTPMatch is an HTTPMatchRequest: https://istio.io/latest/docs/reference/config/networking/virtual-service/#HTTPMatchRequest
// All of it has to hold.
type HTTPMatch struct {
	Where
	Name       string `json:",omitempty"`
	StatPrefix string `json:",omitempty"`

	// URI compares with the path, without its query. nil: any path.
	URI           *Text `json:",omitempty"`
	IgnoreURICase bool  `json:",omitempty"` // of exact and prefix

	Scheme    *Text         `json:",omitempty"`
	Method    *Text         `json:",omitempty"`
	Authority *Text         `json:",omitempty"` // of the Host as it was sent, with its port
	Headers   []HeaderMatch `json:",omitempty"`
	Claims    []ClaimMatch  `json:",omitempty"`
	Query     []QueryMatch  `json:",omitempty"`

	// Carries is the cookie of a session that the last of Headers asks for, which says where a request goes, and not which is meant (Precedence).
	Carries string `json:",omitempty"`
}

// HeaderMatch is about one header. Where it occurs several times, one of its values has to match.
type HeaderMatch struct {
	Name string // in lower case
	Text Text
	// Without turns it round (withoutHeaders). A header that is not there counts as one that is empty, unless the
	// match is about its presence alone.
	Without bool `json:",omitempty"`
}

// QueryMatch is about the first parameter of a name in the query, as it is written, without decoding.
type QueryMatch struct {
	Name string
	Text Text
}

// Holds says whether a request at a place where the match counts is meant.
func (m *HTTPMatch) Holds(r *Request) bool {
	path, query, _ := strings.Cut(r.Path, "?")
	anyPath := m.URI == nil || m.URI.Kind == Present || m.URI.Kind == Prefix && m.URI.Value == "/"
	if pathKnown := r.Unknown == nil || !r.Unknown.Path; pathKnown && !m.path(path) {
		return false
	}
	for _, x := range [...]struct {
		text  *Text
		value string
	}{{m.Scheme, r.Scheme}, {m.Method, r.Method}, {m.Authority, r.Authority}} {
		if x.text != nil && (x.value == "" || !x.text.Matches(x.value)) {
			return false
		}
	}
	if !anyPath && r.PathAsked() {
		return false
	}
	for _, h := range m.Headers {
		if r.HeaderAsked(h.Name) || !h.holds(r.Headers) {
			return false
		}
	}
	for i := range m.Claims {
		if !m.Claims[i].holds(r) {
			return false
		}
	}
	for _, q := range m.Query {
		if r.queryAsked() {
			return false
		}
		if value, ok := parameter(query, q.Name); !ok || !q.Text.Matches(value) {
			return false
		}
	}
	return true
}

func (m *HTTPMatch) path(path string) bool {
	switch {
	case m.URI == nil || m.URI.Kind == Present:
		return strings.HasPrefix(path, "/")
	case m.IgnoreURICase:
		return m.URI.folded(path)
	default:
		return m.URI.Matches(path)
	}
}

// Any says whether every request at its place is meant.
func (m *HTTPMatch) Any() bool {
	all := m.URI == nil || m.URI.Kind == Present || (m.URI.Kind == Prefix && m.URI.Value == "/")
	return all && m.Scheme == nil && m.Method == nil && m.Authority == nil && len(m.Headers) == 0 && len(m.Claims) == 0 && len(m.Query) == 0
}

func (h *HeaderMatch) holds(headers map[string][]string) bool {
	values, there := headers[h.Name]
	there = there && len(values) > 0
	switch {
	case h.Text.Kind == Present:
		return there != h.Without
	case !there && !h.Without:
		return false
	default:
		if !there {
			values = []string{""}
		}
		return slices.ContainsFunc(values, h.Text.Matches) != h.Without
	}
}

// parameter finds the first parameter of a name in a query.
func parameter(query, name string) (string, bool) {
	for query != "" {
		var one string
		one, query, _ = strings.Cut(query, "&")
		if key, value, _ := strings.Cut(one, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// works says whether a proxy can be told of it: names are there, and expressions are such.
func (m *HTTPMatch) works() bool {
	for _, h := range m.Headers {
		if !isToken(h.Name) || !h.Text.works() {
			return false
		}
	}
	for _, c := range m.Claims {
		if !c.Text.works() {
			return false
		}
	}
	for _, q := range m.Query {
		if q.Name == "" || !q.Text.works() {
			return false
		}
	}
	return m.URI.works() && m.Scheme.works() && m.Method.works() && m.Authority.works()
}
