package status

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Hidden is a match of a route that is never asked: wherever it counts another one, By and ByField, asks for the same and comes first.
type Hidden struct {
	Field   string // rules[N].matches[N]
	By      config.Key
	ByField string
}

// NeverAsked are the matches of HTTPRoutes and GRPCRoutes that are never asked, by their routes. The routes of both kinds for a host are asked together, in the
// order of what they match (route.Precedence); of equals the first route's comes first, and its alone. No status has room for it.
func NeverAsked(s *registry.Snapshot, routes []*config.Object) map[config.Key][]Hidden {
	w := s.World()
	at := map[place][]asker{}
	for _, o := range routes {
		r, is := gatewayapi.RouteOf(o)
		if !is || r.Kind != "HTTPRoute" && r.Kind != "GRPCRoute" {
			continue
		}
		for _, a := range r.Attach(w) {
			for _, p := range placesOf(w, r, a) {
				at[p] = append(at[p], asker{r, a})
			}
		}
	}
	won, lost := map[matchOf]bool{}, map[matchOf]Hidden{}
	for p, list := range at {
		slices.SortFunc(list, func(x, y asker) int {
			return cmp.Or(cmp.Compare(x.foreign(p), y.foreign(p)), gatewayapi.Older(x.route.Object, y.route.Object))
		})
		first := map[string]matchOf{}
		for _, x := range list {
			for _, m := range matchesOf(w, x) {
				switch by, taken := first[m.asks]; {
				case !taken || by == m.of:
					first[m.asks], won[m.of] = m.of, true
				default:
					lost[m.of] = Hidden{Field: m.of.field, By: by.route, ByField: by.field}
				}
			}
		}
	}
	out := map[config.Key][]Hidden{}
	for m, h := range lost {
		if !won[m] {
			out[m.route] = append(out[m.route], h)
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b Hidden) int { return cmp.Or(len(a.Field)-len(b.Field), strings.Compare(a.Field, b.Field)) })
	}
	return out
}

// place is where routes are asked together: a name of a listener, or a port of a Service, for the pods of a namespace or for all.
type place struct {
	ref, name string
	service   registry.Ref
	port      uint32
	pods      string
}

// asker is a route at one of its parents.
type asker struct {
	route gatewayapi.Route
	at    gatewayapi.Attachment
}

// foreign puts the routes of the Gateway's own namespace first, as gateways do.
func (x asker) foreign(p place) int {
	if p.ref != "" && x.route.Object.Namespace != x.at.Gateway.Namespace {
		return 1
	}
	return 0
}

// placesOf are those of a route at a parent; none where it does not count there.
func placesOf(w gatewayapi.World, r gatewayapi.Route, a gatewayapi.Attachment) (out []place) {
	if a.Is() {
		return nil
	}
	if a.OfMesh() {
		p := place{service: registry.Ref(a.Service), port: a.Port}
		if r.Object.Namespace != a.Service.Namespace {
			p.pods = r.Object.Namespace
		}
		return []place{p}
	}
	names := r.Hostnames
	if len(names) == 0 {
		names = []string{"*"}
	}
	g := w.Object(a.Gateway)
	if g == nil {
		return nil
	}
	for l := range gatewayapi.Listeners(w, g).All() {
		if !slices.Contains(a.Refs, l.Ref) {
			continue
		}
		for _, n := range names {
			switch {
			case host.Matches(host.Name(l.Host), host.Name(n)):
				out = append(out, place{ref: l.Ref, name: n})
			case host.Matches(host.Name(n), host.Name(l.Host)):
				out = append(out, place{ref: l.Ref, name: l.Host})
			}
		}
	}
	return out
}

// matchOf is a match of a route.
type matchOf struct {
	route config.Key
	field string
}

// asked is what a match asks for, as a text that is the same for the same.
type asked struct {
	of   matchOf
	asks string
}

func matchesOf(w gatewayapi.World, x asker) (out []asked) {
	for _, h := range x.route.Routes(w, x.at.Refs, x.at.Way()).HTTP {
		m := h.Matches[0]
		if m.Carries != "" { // whose session is meant
			continue
		}
		m.Where, m.Name = route.Where{}, ""
		if m.Any() {
			m.URI = nil
		}
		m.Headers, m.Query = slices.Clone(m.Headers), slices.Clone(m.Query)
		slices.SortFunc(m.Headers, func(a, b route.HeaderMatch) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(m.Query, func(a, b route.QueryMatch) int { return strings.Compare(a.Name, b.Name) })
		text, err := json.Marshal(m)
		if err != nil {
			continue
		}
		out = append(out, asked{matchOf{x.route.Object.Key, written(x.route, h.Field)}, string(text)})
	}
	return out
}

// written leaves the match out of the field of a rule that has none.
func written(r gatewayapi.Route, field string) string {
	rule, _, _ := strings.Cut(field, ".matches[")
	i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(rule, "rules["), "]"))
	if err != nil {
		return field
	}
	none := false
	switch spec := r.Object.Spec.(type) {
	case *gatewayv1.HTTPRouteSpec:
		none = len(spec.Rules[i].Matches) == 0
	case *gatewayv1.GRPCRouteSpec:
		none = len(spec.Rules[i].Matches) == 0
	}
	if none {
		return rule
	}
	return field
}
