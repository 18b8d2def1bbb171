package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/route"
)

// withoutEffect warns of what a route says and nothing comes of.
func (r *report) withoutEffect(field string, h *networking.HTTPRoute) {
	action := ""
	switch {
	case h.Redirect != nil:
		action = "redirect"
	case h.DirectResponse != nil:
		action = "directResponse"
	case h.Mirror == nil && (h.MirrorPercentage != nil || h.MirrorPercent != nil):
		r.warn(at(field, "mirrorPercentage"), nil, "there is no mirror, so nothing is copied", "write mirror, or remove it")
	}
	if action == "" {
		return
	}
	for _, beside := range []struct {
		name string
		set  bool
	}{
		{"mirror", h.Mirror != nil}, {"mirrors", len(h.Mirrors) > 0}, {"timeout", h.Timeout != nil}, {"retries", h.Retries != nil},
	} {
		if beside.set {
			r.warn(at(field, beside.name), nil, "has no effect beside "+action+", which the proxy answers itself", "remove it")
		}
	}
}

// copied warns of a share of which nothing is left in millionths, in which proxies count.
func (r *report) copied(field string, p *networking.Percent) {
	r.within100(field, p)
	if p != nil && p.Value > 0 && p.Value < 0.0001 {
		r.warn(field, p.Value, "is less than proxies can tell from none, so nothing is copied", "write 0, or a number from 0.0001 to 100")
	}
}

// unasked warns of conditions of a retry that nothing ever meets.
func (r *report) unasked(field string, conditions []string) {
	if slices.Contains(conditions, "retriable-status-codes") && !slices.ContainsFunc(conditions, isStatus) {
		r.warn(field, "retriable-status-codes", "names no status, so no answer is one", `write the statuses beside it, as in "503"`)
	}
	if slices.Contains(conditions, "retriable-headers") {
		r.warn(field, "retriable-headers", "names no header, and there is no field for one, so no answer is one", "remove it")
	}
}

// oneLine rejects what ends a header's line: Envoy refuses it, with all that came along.
func (r *report) oneLine(field, value string) {
	if strings.ContainsAny(value, "\x00\r\n") {
		r.reject(field, value, "holds a line's end, or a zero byte", "remove it")
	}
}

// replacement judges what takes the place of an expression's match: "\1" is its first group.
func (r *report) replacement(field, match, rewrite string) {
	if route.CheckRegex(match) != nil {
		return // it is said of that
	}
	groups := route.Groups(match)
	for i := 0; i < len(rewrite); i++ {
		if rewrite[i] != '\\' {
			continue
		}
		i++
		switch {
		case i < len(rewrite) && rewrite[i] == '\\':
		case i < len(rewrite) && rewrite[i] >= '0' && rewrite[i] <= '9':
			if n, _ := strconv.Atoi(rewrite[i : i+1]); n > groups {
				r.warn(field, rewrite, fmt.Sprintf("there is no group %d in the expression: proxies leave the path as it is", n), "write a group's number, or a group more")
				return
			}
		default:
			r.reject(field, rewrite, `a \ is followed by neither a digit nor a second one`, `write \1 for the first group, and \\ for the character`)
			return
		}
	}
}

// takesAll says whether a route takes every request that reaches it.
func takesAll(h *networking.HTTPRoute) bool {
	return h.Delegate == nil && (len(h.Match) == 0 || slices.ContainsFunc(h.Match, matchesAll))
}

func matchesAll(m *networking.HTTPMatchRequest) bool {
	all := proto.Clone(m).(*networking.HTTPMatchRequest)
	all.Name, all.StatPrefix = "", ""
	if all.GetUri().GetPrefix() == "/" {
		all.Uri = nil
	}
	return proto.Equal(all, &networking.HTTPMatchRequest{})
}

// reached warns of the first route behind one that takes every request.
func (r *report) reached(routes []*networking.HTTPRoute) {
	for i, h := range routes {
		if takesAll(h) && i+1 < len(routes) {
			r.warn(at("spec.http", i+1), nil, at("spec.http", i)+" takes every request, so no route behind it is ever asked", "put it last, or write what it is to match")
			return
		}
	}
}
