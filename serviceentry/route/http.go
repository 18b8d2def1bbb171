package route

import (
	"regexp"
	"slices"
	"time"

	"github.com/sallyport/sallyport/config"
)

// HTTP is an HTTPRoute: https://istio.io/latest/docs/reference/config/networking/virtual-service/#HTTPRoute
// Of a list of them the first counts that means a request; a request that none means is answered with 404.
type HTTP struct {
	Name string `json:",omitempty"`
	// From is the object that wrote it, a VirtualService or the delegate of one, with its revision; Field is where in it.
	From     config.Key
	Revision string `json:",omitempty"`
	Field    string // "http[0]"

	Matches []HTTPMatch // any of them; there is at least one

	// Closed is why what it means goes nowhere: of a route that stands for all that an object has, where these are not made. nil for what users write.
	Closed *Closed `json:",omitempty"`

	// What is done, one of the three.
	Destinations   []HTTPDestination `json:",omitempty"`
	Redirect       *Redirect         `json:",omitempty"`
	DirectResponse *DirectResponse   `json:",omitempty"`

	Rewrite *Rewrite      `json:",omitempty"`
	Timeout time.Duration `json:",omitempty"` // 0: none
	Retries *Retries      `json:",omitempty"` // nil: as usual
	Delay   *Delay        `json:",omitempty"`
	Abort   *Abort        `json:",omitempty"`
	Mirrors []Mirror      `json:",omitempty"`
	CORS    *CORS         `json:",omitempty"`
	Asks    *ExternalAuth `json:",omitempty"`
	Headers Headers       `json:",omitzero"`

	fault, headers, mirrors bool     // the user wrote them, also where they say nothing; for merging
	gateways                []string // of the VirtualService
}

// HTTPDestination is where requests of a route go.
type HTTPDestination struct {
	Destination
	Weight  uint32  // its part of the sum; at least 1
	Headers Headers `json:",omitzero"`
	// Session keeps clients with the endpoint that answered them; nil: each request goes anywhere.
	Session *Session `json:",omitempty"`
}

// Destination names a host of the registry: https://istio.io/latest/docs/reference/config/networking/virtual-service/#Destination
type Destination struct {
	Host   string // a full name in lower case, or a pattern that is registered as such
	Subset string `json:",omitempty"`
	Port   uint32 `json:",omitempty"` // 0: see PortOf
}

// PortOf is the port that is meant, of those that the host is registered with, for what came to a port: the one that is
// written, else the host's only one, else the one that was asked for.
func (d Destination) PortOf(registered []uint32, asked uint32) uint32 {
	switch {
	case d.Port != 0:
		return d.Port
	case len(registered) == 1:
		return registered[0]
	default:
		return asked
	}
}

// Headers are changes of a request's headers and of its response's. Those of the route come before those of the destination.
type Headers struct {
	Request  HeaderOps `json:",omitzero"`
	Response HeaderOps `json:",omitzero"`
}

// HeaderOps are changes of headers. Values are Envoy's format strings: "%%" is a percent sign.
type HeaderOps struct {
	Set    []Header `json:",omitempty"` // in order of their names
	Add    []Header `json:",omitempty"` // likewise
	Remove []string `json:",omitempty"`
	// Authority takes the place of a request's Host; "" leaves it. Names ":authority" and "Host" mean it.
	Authority string `json:",omitempty"`
}

// Header is one with its value.
type Header struct{ Name, Value string }

// Redirect sends the client elsewhere: https://istio.io/latest/docs/reference/config/networking/virtual-service/#HTTPRedirect
type Redirect struct {
	URI, PrefixRewrite, Authority, Scheme string // "" leaves it; at most one of the first two is set
	// Port is 0 where the protocol says it. FromRequest stands for the one that the request came to.
	Port        uint32 `json:",omitempty"`
	FromRequest bool   `json:",omitempty"`
	// Regex changes the path instead of the first two.
	Regex *RegexRewrite `json:",omitempty"`
	Code  uint32        // 301, 302, 303, 307 or 308
}

// DirectResponse answers by itself.
type DirectResponse struct {
	Status uint32
	Body   []byte `json:",omitempty"`
}

// Rewrite changes what the destination is asked for: https://istio.io/latest/docs/reference/config/networking/virtual-service/#HTTPRewrite
type Rewrite struct {
	// URI takes the place of the prefix that matched, or of the whole path where another match did.
	URI       string        `json:",omitempty"`
	Authority string        `json:",omitempty"`
	Regex     *RegexRewrite `json:",omitempty"`
}

// RegexRewrite replaces what an expression (RE2) finds in the path, without its query. "\1" is its first group.
type RegexRewrite struct {
	Match, Rewrite string

	found *regexp.Regexp // of Match
}

// NewRegexRewrite is one; nil where the expression is none (CheckRegex).
func NewRegexRewrite(match, rewrite string) *RegexRewrite {
	if CheckRegex(match) != nil {
		return nil
	}
	return regexRewrite(match, rewrite)
}

// regexRewrite is one of an expression that is known to be one.
func regexRewrite(match, rewrite string) *RegexRewrite {
	return &RegexRewrite{match, rewrite, regexp.MustCompile(latin1(match))}
}

// Retries are for requests that fail: https://istio.io/latest/docs/reference/config/networking/virtual-service/#HTTPRetry
type Retries struct {
	Attempts        uint32 // 0: none
	PerTry, Backoff time.Duration
	On              []string `json:",omitempty"` // Envoy's conditions; nil: as usual
	OnStatus        []uint32 `json:",omitempty"`
	RemoteLocality  bool     `json:",omitempty"`
	PreviousHosts   bool     `json:",omitempty"` // hosts that failed may be tried again
}

// Share is a part of all requests, in millionths.
type Share uint32

// All of them.
const All Share = 1_000_000

// Delay holds requests back.
type Delay struct {
	For   time.Duration
	Share Share
}

// Abort answers requests with an error.
type Abort struct {
	Status uint32  `json:",omitempty"` // of HTTP
	GRPC   *uint32 `json:",omitempty"` // of gRPC, instead
	Share  Share
}

// Mirror sends a copy of requests; nobody waits for its answer.
type Mirror struct {
	Destination
	Share Share
}

// CORS answers browsers that ask for other origins: https://istio.io/latest/docs/reference/config/networking/virtual-service/#CorsPolicy
type CORS struct {
	Origins                []Text
	Methods, Allow, Expose []string      `json:",omitempty"`
	MaxAge                 time.Duration `json:",omitempty"`
	Credentials            *bool         `json:",omitempty"`
	ForwardOthers          bool          // preflights of other origins go to the destination
}

// At gives the route with the matches that count at a place.
func (h *HTTP) At(p Scope) (HTTP, bool) {
	out := *h
	out.Matches = nil
	for i := range h.Matches {
		if !h.Matches[i].At(p) {
			continue
		}
		out.Matches = append(out.Matches, h.Matches[i])
		if h.Matches[i].Any() {
			break
		}
	}
	return out, len(out.Matches) > 0
}

// HTTPAt gives the routes that count at a place, each with the matches that do. What is behind one that means every request
// is left out. Without any, the host is reached as if nobody had written routes for it.
func HTTPAt(routes []HTTP, p Scope) (out []HTTP) {
	for i := range routes {
		r, ok := routes[i].At(p)
		if !ok {
			continue
		}
		if out = append(out, r); r.Matches[len(r.Matches)-1].Any() {
			return out
		}
	}
	return out
}

// Match says whether the route means a request, and by which of its matches.
func (h *HTTP) Match(r *Request) (*HTTPMatch, bool) {
	for i := range h.Matches {
		if m := &h.Matches[i]; m.At(r.Place) && m.Holds(r) {
			return m, true
		}
	}
	return nil, false
}

// Means says whether the route means a request.
func (h *HTTP) Means(r *Request) bool { _, ok := h.Match(r); return ok }

// Join makes one list of those that several objects wrote for one host, in their order. What means every request comes last,
// so that no object's routes are hidden behind another's. One that is closed for what an object would deny is all there is: nothing passes by another's.
func Join(lists ...[]HTTP) []HTTP {
	var out, last []HTTP
	for _, list := range lists {
		for _, h := range list {
			if h.Closed != nil {
				return []HTTP{h}
			}
			some, all := h, h
			some.Matches, all.Matches = nil, nil
			for _, m := range h.Matches {
				if m.Any() {
					all.Matches = append(all.Matches, m)
				} else {
					some.Matches = append(some.Matches, m)
				}
			}
			if len(some.Matches) > 0 {
				out = append(out, some)
			}
			if len(all.Matches) > 0 {
				last = append(last, all)
			}
		}
	}
	return append(out, last...)
}

// Renames says whether the route changes the Host of requests.
func (h *HTTP) Renames() bool {
	return h.Rewrite != nil && h.Rewrite.Authority != "" || h.Headers.Request.Authority != "" ||
		slices.ContainsFunc(h.Destinations, func(d HTTPDestination) bool { return d.Headers.Request.Authority != "" })
}

// AuthorityTo is the Host that requests get which go to one of the destinations; "" leaves it.
func (h *HTTP) AuthorityTo(i int) string {
	if own := h.Destinations[i].Headers.Request.Authority; own != "" {
		return own
	}
	if h.Rewrite != nil && h.Rewrite.Authority != "" {
		return h.Rewrite.Authority
	}
	return h.Headers.Request.Authority
}
