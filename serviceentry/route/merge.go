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

// TooManyDelegated says which delegates, of those that a VirtualService names which has so many hosts, bring more matches than count (see Resolve), each once and in order,
// and how many all may bring.
func (r Routes) TooManyDelegated(hosts int, find func(config.Key) (Routes, bool)) (most int, beyond []config.Key) {
	_, beyond = r.resolve(hosts, find)
	return r.mostDelegated(hosts), beyond
}

// Resolve puts the routes of delegates into their places: find gives those of one, and nothing where there is none that
// may be used. As in Istio, a delegate's match has to lie within one of the route that delegates, what a delegate's route
// leaves out is taken from that, and a delegate's route that contradicts it is left out. Delegates do not delegate again. Of those that bring more
// than MostDelegated together, or than come to MostRows with the hosts that the VirtualService has, each namespace's count as far as its share goes, and what
// others leave; the rest are left out.
func (r Routes) Resolve(hosts int, find func(config.Key) (Routes, bool)) Routes {
	out, _ := r.resolve(hosts, find)
	return out
}

func (r Routes) resolve(hosts int, find func(config.Key) (Routes, bool)) (out Routes, beyond []config.Key) {
	if len(r.delegated) == 0 {
		return r, nil
	}
	of := map[config.Key]*Routes{} // nil of those that may not be used
	for _, key := range r.Delegates() {
		if routes, ok := find(key); ok {
			of[key] = &routes
		}
	}
	counts := r.shareOut(r.mostDelegated(hosts), of)
	out = Routes{TLS: r.TLS, TCP: r.TCP}
	at := 0
	for n, d := range r.delegated {
		out.HTTP = append(out.HTTP, r.HTTP[at:d.before]...)
		at = d.before
		switch routes := of[d.to]; {
		case routes == nil:
		case !counts[n]:
			if !slices.Contains(beyond, d.to) {
				beyond = append(beyond, d.to)
			}
		default:
			for i := range routes.HTTP {
				if h, ok := merge(&d.root, routes.HTTP[i]); ok {
					out.HTTP = append(out.HTTP, h)
				}
			}
		}
	}
	out.HTTP = append(out.HTTP, r.HTTP[at:]...)
	return out, beyond
}

// shareOut says which of the places where something is delegated count, of as many matches as there may be in all: first those of each namespace within an equal share, so that
// what others write is no matter to them, and then, in order, those for which there is room left.
func (r Routes) shareOut(most int, of map[config.Key]*Routes) []bool {
	counts, costs, has := make([]bool, len(r.delegated)), make([]int, len(r.delegated)), map[string]int{}
	for n := range r.delegated {
		d := &r.delegated[n]
		has[d.to.Namespace] = 0
		if routes := of[d.to]; routes != nil {
			costs[n] = max(routes.matches(), 1) * max(len(d.root.Matches), 1)
		}
	}
	share, left := most/len(has), most
	for n, cost := range costs {
		ns := r.delegated[n].to.Namespace
		if has[ns]+cost <= share {
			counts[n] = true
			has[ns] += cost
			left -= cost
		}
	}
	for n, cost := range costs {
		if !counts[n] && cost <= left {
			counts[n] = true
			left -= cost
		}
	}
	return counts
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
