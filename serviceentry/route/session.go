package route

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Session keeps a client's requests with the endpoint that answered its first: https://gateway-api.sigs.k8s.io/geps/gep-1619/
// The client carries the endpoint's address, in a cookie or in a header, which the destination has to have.
type Session struct {
	Cookie string `json:",omitempty"` // the cookie's name,
	Header string `json:",omitempty"` // or that of a header

	Path     string        `json:",omitempty"` // below which the cookie counts
	Lifetime time.Duration `json:",omitempty"` // of the cookie, in whole seconds; 0: until the client ends
}

// sessionAsked is what a rule asks for, with the API's defaults in the place of what is left out.
type sessionAsked struct {
	name      string
	header    bool
	permanent bool
	timeout   time.Duration
}

func readSession(s *gatewayv1.SessionPersistence) (out sessionAsked) {
	if s.SessionName != nil {
		out.name = *s.SessionName
	}
	out.header = s.Type != nil && *s.Type == gatewayv1.HeaderBasedSessionPersistence
	out.permanent = s.CookieConfig != nil && s.CookieConfig.LifetimeType != nil && *s.CookieConfig.LifetimeType == gatewayv1.PermanentCookieLifetimeType
	out.timeout = durationOf(s.AbsoluteTimeout).Truncate(time.Second)
	return out
}

// unsupportedSession says what of a rule's sessionPersistence is not done, and why; "" for nothing.
func unsupportedSession(r *gatewayv1.HTTPRouteRule) (field, why string) {
	s := r.SessionPersistence
	if s == nil {
		return "", ""
	}
	asked := readSession(s)
	switch {
	case s.Type != nil && *s.Type != gatewayv1.CookieBasedSessionPersistence && *s.Type != gatewayv1.HeaderBasedSessionPersistence:
		return "type", fmt.Sprintf("%q is neither Cookie nor Header", *s.Type)
	case s.SessionName != nil && !isToken(asked.name):
		return "sessionName", fmt.Sprintf("%q is no name of a cookie or a header: write letters, digits, and any of -_.", asked.name)
	case asked.header && asked.name != "" && !may(strings.ToLower(asked.name), true):
		return "sessionName", "the header " + strings.ToLower(asked.name) + " is none that a route may write: name another"
	case asked.header && s.CookieConfig != nil:
		return "cookieConfig", "a session that a header carries has no cookie: remove it, or write type: Cookie"
	case asked.header && s.AbsoluteTimeout != nil:
		return "absoluteTimeout", "a session that a header carries does not end by itself: remove it, or write type: Cookie with lifetimeType: Permanent"
	case asked.header && len(r.BackendRefs) > 1:
		return "type", "a header does not tell which of several backends a session is with: write Cookie, or name one backend"
	case asked.permanent && asked.timeout <= 0:
		return "absoluteTimeout", "a permanent cookie lasts for at least 1s: write how long"
	case !asked.permanent && s.AbsoluteTimeout != nil:
		return "absoluteTimeout", "a cookie with an end of its own is a permanent one: write cookieConfig.lifetimeType: Permanent, or remove it"
	}
	for _, b := range r.BackendRefs {
		if b.Kind != nil && *b.Kind == "Hostname" {
			return "", "sessions are with the pods of Services, and backend " + string(b.Name) + " is a host: remove it, or name a Service"
		}
	}
	for i := range r.Filters {
		if r.Filters[i].Type == gatewayv1.HTTPRouteFilterRequestRedirect {
			return "", "a rule that redirects leads to no backend: remove it"
		}
	}
	return "", ""
}

// SessionBackends are the backends of each rule that asks for sessions, by the rule's place; none of others.
func SessionBackends(spec any) (out [][]gatewayv1.BackendObjectReference) {
	switch spec := spec.(type) {
	case *gatewayv1.GRPCRouteSpec:
		return SessionBackends(asHTTP(spec))
	case *gatewayv1.HTTPRouteSpec:
		out = make([][]gatewayv1.BackendObjectReference, len(spec.Rules))
		for i := range spec.Rules {
			if spec.Rules[i].SessionPersistence == nil {
				continue
			}
			for _, b := range spec.Rules[i].BackendRefs {
				out[i] = append(out[i], b.BackendObjectReference)
			}
		}
	}
	return out
}

// HasSession says whether a route has a rule that asks for sessions.
func HasSession(spec any) bool {
	return slices.ContainsFunc(SessionBackends(spec), func(of []gatewayv1.BackendObjectReference) bool { return len(of) > 0 })
}

// session is what a rule asks for with requests of a match, beside the name that the rule has for it.
func (p gatewayParser) session(asked sessionAsked, name string, m *HTTPMatch) *Session {
	if asked.header {
		return &Session{Header: strings.ToLower(name)}
	}
	s := &Session{Cookie: name, Path: cookiePath(m)}
	if asked.permanent {
		s.Lifetime = asked.timeout
	}
	return s
}

// sessionName is the rule's: as it is written, or one that no other rule has, and that stays while the rule keeps its name, or its place.
func (p gatewayParser) sessionName(asked sessionAsked, rule *gatewayv1.HTTPRouteRule, i int) string {
	if asked.name != "" {
		return asked.name
	}
	of := fmt.Sprintf("[%d]", i)
	if rule.Name != nil {
		of = string(*rule.Name)
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s/%s %s", p.o.Kind, p.o.Namespace, p.o.Name, of)
	return fmt.Sprintf("session-%016x", h.Sum64())
}

// keep makes the sessions of a rule's route h, and gives the routes that come before it: of several backends, each has those requests that
// carry its cookie, whatever its weight (0 begins no session, and ends none). The first backend's cookie has the rule's name, so that sessions
// outlive that another is tried beside it; the others' names say which they are.
func (p gatewayParser) keep(h *HTTP, rule *gatewayv1.HTTPRouteRule, i int, m *HTTPMatch) (before []HTTP) {
	if rule.SessionPersistence == nil || h.Redirect != nil {
		return nil
	}
	asked := readSession(rule.SessionPersistence)
	name := p.sessionName(asked, rule, i)
	begun := 0 // of the route's destinations, which are the backends that have a weight
	for n, b := range rule.BackendRefs {
		d := HTTPDestination{Destination: p.find(b.BackendObjectReference), Weight: 1, Headers: headerFilters(b.Filters), Session: p.session(asked, name, m)}
		if n > 0 {
			d.Session.Cookie = name + "-" + backendHash(d.Destination)
		}
		if weightOfBackend(b.BackendRef) > 0 {
			h.Destinations[begun].Session = d.Session
			begun++
		}
		if len(rule.BackendRefs) == 1 || d.Host == "" {
			continue
		}
		own, carries := *h, *m
		carries.Headers = append(slices.Clip(m.Headers), HeaderMatch{Name: "cookie", Text: NewText(Regex, `(?:.*[;,] *)?`+regexp.QuoteMeta(d.Session.Cookie)+`=.*`)})
		carries.Carries = d.Session.Cookie
		own.Matches, own.Destinations, own.DirectResponse = []HTTPMatch{carries}, []HTTPDestination{d}, nil
		before = append(before, own)
	}
	return before
}

// Held says whether the route is for those alone who carry a session, with the one backend that they are with. The rule's own route follows it.
func (h *HTTP) Held() bool { return len(h.Matches) > 0 && h.Matches[0].Carries != "" }

// backendHash tells a backend from others of its rule.
func backendHash(d Destination) string {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s:%d", d.Host, d.Port)
	return fmt.Sprintf("%08x", h.Sum32())
}

// cookiePath is the path below which a cookie counts that is written for a match: all that may be asked for by it is there. A cookie's attribute
// ends at a semicolon (RFC 6265 section 4.1.1), and so does what is taken of a path that has one.
func cookiePath(m *HTTPMatch) string {
	if m.URI == nil {
		return "/"
	}
	path, whole := m.URI.Value, true
	if m.URI.Kind == Regex {
		path, whole = literalPrefix(path)
	}
	if head, _, cut := strings.Cut(path, ";"); cut {
		path, whole = head, false
	}
	if !whole { // to the last element that is all there
		path = path[:strings.LastIndexByte(path, '/')+1]
	}
	if path = strings.TrimRight(path, "/"); !strings.HasPrefix(path, "/") {
		return "/"
	}
	return path
}

// literalPrefix is the text with which all begins that an expression matches, and whether that is all.
func literalPrefix(expression string) (string, bool) {
	re, err := regexp.Compile(expression)
	if err != nil {
		return "", false
	}
	return re.LiteralPrefix()
}
