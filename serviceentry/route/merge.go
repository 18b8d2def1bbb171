package route

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// DelegateKey is the object that a route of a VirtualService of a namespace names.
func DelegateKey(d *networking.Delegate, namespace string) config.Key {
	return config.Key{Kind: config.KindVirtualService, Namespace: cmp.Or(d.Namespace, namespace), Name: d.Name}
}

// Delegates are the objects that the routes of a VirtualService are to come from, in order and each once.
func (r *Routes) Delegates() []config.Key {
	var out []config.Key
	for _, d := range r.delegated {
		if !slices.Contains(out, d.to) {
			out = append(out, d.to)
		}
	}
	return out
}

// MostDelegated is how many matches delegates may bring to one VirtualService. Each of a delegate's is taken together with each of the route's that delegates, and a delegate may be
// named many times: two small objects would come to more than a control plane holds.
const MostDelegated = 16_384

// mostDelegated is how many they may bring to one that has so many hosts: MostRows are for all of them, at each of its gateways.
func (r Routes) mostDelegated(hosts int) int {
	gateways := 1
	for _, d := range r.delegated {
		gateways = max(gateways, len(d.root.gateways))
	}
	return min(MostDelegated, MostRows/(max(hosts, 1)*gateways))
}

// TooManyDelegated says whether delegates would bring more matches to one that has so many hosts than count (see Resolve), and how many these are.
func (r Routes) TooManyDelegated(hosts int, find func(config.Key) (Routes, bool)) (most int, beyond bool) {
	_, beyond = r.resolve(hosts, find)
	return r.mostDelegated(hosts), beyond
}

// Resolve puts the routes of delegates into their places: find gives those of one, and nothing where there is none that
// may be used. As in Istio, a delegate's match has to lie within one of the route that delegates, what a delegate's route
// leaves out is taken from that, and a delegate's route that contradicts it is left out. Delegates do not delegate again. From the delegate on by which there would be more
// than MostDelegated, or than come to MostRows with the hosts that the VirtualService has, none counts.
func (r Routes) Resolve(hosts int, find func(config.Key) (Routes, bool)) Routes {
	out, _ := r.resolve(hosts, find)
	return out
}

func (r Routes) resolve(hosts int, find func(config.Key) (Routes, bool)) (out Routes, beyond bool) {
	if len(r.delegated) == 0 {
		return r, false
	}
	out = Routes{TLS: r.TLS, TCP: r.TCP}
	at, brought, most := 0, 0, r.mostDelegated(hosts)
	for _, d := range r.delegated {
		out.HTTP = append(out.HTTP, r.HTTP[at:d.before]...)
		at = d.before
		if beyond {
			continue
		}
		of, ok := find(d.to)
		if !ok {
			continue
		}
		if brought += max(of.matches(), 1) * max(len(d.root.Matches), 1); brought > most {
			beyond = true
			continue
		}
		for i := range of.HTTP {
			if h, ok := merge(&d.root, of.HTTP[i]); ok {
				out.HTTP = append(out.HTTP, h)
			}
		}
	}
	out.HTTP = append(out.HTTP, r.HTTP[at:]...)
	return out, beyond
}

// LeftOut is a route of a delegate that contradicts the one that delegates.
type LeftOut struct {
	Field string     // of that one: "http[0]"
	By    config.Key // the delegate
	Own   string     // where in it
}

// LeftOut are those of the delegates that find gives.
func (r Routes) LeftOut(find func(config.Key) (Routes, bool)) (out []LeftOut) {
	for i := range r.delegated {
		d := &r.delegated[i]
		of, _ := find(d.to)
		for _, h := range of.HTTP {
			if _, ok := mergeMatches(&d.root, h.Matches); !ok {
				out = append(out, LeftOut{d.root.Field, d.to, h.Field})
			}
		}
	}
	return out
}

// matches is how many there are in the routes of requests; a route without any counts as one.
func (r Routes) matches() (n int) {
	for i := range r.HTTP {
		n += max(len(r.HTTP[i].Matches), 1)
	}
	return n
}

func merge(root *HTTP, h HTTP) (HTTP, bool) {
	var ok bool
	if h.Matches, ok = mergeMatches(root, h.Matches); !ok {
		return HTTP{}, false
	}
	h.Name = joined(root.Name, h.Name)
	if h.Rewrite == nil {
		h.Rewrite = root.Rewrite
	}
	if h.Timeout == 0 {
		h.Timeout = root.Timeout
	}
	if h.Retries == nil {
		h.Retries = root.Retries
	}
	if !h.fault {
		h.Delay, h.Abort = root.Delay, root.Abort
	}
	if !h.mirrors {
		h.Mirrors = root.Mirrors
	}
	if h.CORS == nil {
		h.CORS = root.CORS
	}
	if !h.headers {
		h.Headers = root.Headers
	}
	return h, true
}

func joined(root, name string) string {
	if root == "" || name == "" {
		return root + name
	}
	return root + "-" + name
}

func mergeMatches(root *HTTP, of []HTTPMatch) ([]HTTPMatch, bool) {
	if len(root.Matches) == 0 {
		return within(of, root), true
	}
	var out []HTTPMatch
	for i := range of {
		if of[i].bare() { // the delegate has none: those of the root are all
			return root.Matches, true
		}
		found := false
		for j := range root.Matches {
			if m, ok := mergeMatch(&root.Matches[j], of[i]); ok {
				out, found = append(out, m), true
			}
		}
		if !found {
			return nil, false
		}
	}
	return out, len(out) > 0
}

// within gives matches of a delegate, which has no gateways of its own, those of the route that delegates to it.
func within(of []HTTPMatch, root *HTTP) []HTTPMatch {
	out := slices.Clone(of)
	for i := range out {
		if !out[i].Named {
			out[i].Gateways = root.gateways
		}
	}
	return out
}

// bare says whether the match says nothing at all.
func (m *HTTPMatch) bare() bool {
	return m.Any() && m.URI == nil && m.Port == 0 && !m.Named && len(m.SourceLabels) == 0 && m.SourceNamespace == "" && !m.IgnoreURICase
}

// mergeMatch makes the match that holds where both do.
func mergeMatch(root *HTTPMatch, m HTTPMatch) (HTTPMatch, bool) {
	if contradicts(root, &m) {
		return HTTPMatch{}, false
	}
	m.Name = joined(root.Name, m.Name)
	if m.StatPrefix == "" {
		m.StatPrefix = root.StatPrefix
	}
	if m.URI == nil {
		m.URI, m.IgnoreURICase = root.URI, root.IgnoreURICase
	}
	for _, x := range [...]struct{ of, root **Text }{
		{&m.Scheme, &root.Scheme}, {&m.Method, &root.Method}, {&m.Authority, &root.Authority},
	} {
		if *x.of == nil {
			*x.of = *x.root
		}
	}
	m.Headers = append(slices.Clone(root.Headers), m.Headers...)
	m.Claims = append(slices.Clone(root.Claims), m.Claims...)
	m.Query = append(slices.Clone(root.Query), m.Query...)
	if m.Port == 0 {
		m.Port = root.Port
	}
	if !m.Named {
		m.Gateways, m.Named = root.Gateways, root.Named
	}
	if m.SourceNamespace == "" {
		m.SourceNamespace = root.SourceNamespace
	}
	if len(root.SourceLabels) > 0 {
		labels := maps.Clone(root.SourceLabels)
		maps.Copy(labels, m.SourceLabels)
		m.SourceLabels = labels
	}
	return m, true
}

// contradicts says whether a delegate's match does not lie within the one that delegates.
func contradicts(root, m *HTTPMatch) bool {
	for _, x := range [...]struct{ root, of *Text }{{root.URI, m.URI}, {root.Scheme, m.Scheme}, {root.Method, m.Method}, {root.Authority, m.Authority}} {
		if outside(x.root, x.of) {
			return true
		}
	}
	for _, h := range m.Headers {
		for _, r := range root.Headers {
			if h.Name == r.Name && h.Without == r.Without && !h.Without && outside(&r.Text, &h.Text) {
				return true
			}
		}
	}
	for _, c := range m.Claims {
		for _, r := range root.Claims {
			if slices.Equal(c.Path, r.Path) && !c.Without && !r.Without && outside(&r.Text, &c.Text) {
				return true
			}
		}
	}
	for _, q := range m.Query {
		for _, r := range root.Query {
			if q.Name == r.Name && outside(&r.Text, &q.Text) {
				return true
			}
		}
	}
	for key, value := range m.SourceLabels {
		if has, ok := root.SourceLabels[key]; ok && has != value {
			return true
		}
	}
	other := func(g string) bool { return !slices.Contains(root.Gateways, g) }
	return root.URI != nil && root.IgnoreURICase != m.IgnoreURICase && m.URI != nil ||
		root.Port != 0 && m.Port != 0 && root.Port != m.Port ||
		root.SourceNamespace != "" && m.SourceNamespace != "" && root.SourceNamespace != m.SourceNamespace ||
		root.Named && m.Named && slices.ContainsFunc(m.Gateways, other)
}

// outside says whether the values that a text means are not all among those that another one does, as far as can be told:
// beside an expression nothing can be.
func outside(root, of *Text) bool {
	switch {
	case root == nil || of == nil || root.Kind == Present:
		return false
	case root.Kind == Regex || of.Kind == Regex || of.Kind == Present:
		return true
	case root.Kind == Exact:
		return of.Kind != Exact || of.Value != root.Value
	default:
		return !strings.HasPrefix(of.Value, root.Value)
	}
}
