package matrix

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// telling are the rules that are about requests, and may match some to the destination.
func telling(v policy.Verdict) (out []*egresspolicy.Rule) {
	set := v.Policies.Enforced()
	for _, p := range slices.Concat(set.Root, set.Own) {
		for i := range p.Rules {
			bare := p.Rules[i]
			bare.Methods, bare.Paths, bare.Headers = nil, nil, nil
			if p.Rules[i].ReadsRequests() && bare.Matches(v.Asked) {
				out = append(out, &p.Rules[i])
			}
		}
	}
	return out
}

// mostProbes is how many requests are tried for one cell.
const mostProbes = 512

// probes are requests of every sort that the rules tell apart: each method, path and set of headers that one names, with each of the
// others', and such as none names. all is false where there are more.
func probes(d policy.Destination, rules []*egresspolicy.Rule) (out []policy.Destination, all bool) {
	if len(rules) == 0 {
		return nil, true
	}
	methods, paths, headers := []string{"GET", "ANY"}, []string{"/", "/any-path"}, []map[string][]string{nil}
	every := map[string][]string{}
	for _, r := range rules {
		methods = append(methods, r.Methods...)
		for _, p := range r.Paths {
			paths = append(paths, examples(p)...)
		}
		if len(r.Headers) > 0 {
			set := map[string][]string{}
			for _, h := range r.Headers {
				set[h.Name] = []string{strings.ReplaceAll(h.Value, "*", anything)}
				every[h.Name] = set[h.Name]
			}
			headers = append(headers, set)
		}
	}
	if len(headers) > 2 {
		headers = append(headers, every)
	}
	slices.Sort(methods)
	slices.Sort(paths)
	for _, m := range slices.Compact(methods) {
		for _, p := range slices.Compact(paths) {
			for _, h := range headers {
				if len(out) == mostProbes {
					return out, false
				}
				d.Method, d.Path, d.Headers = m, p, h
				out = append(out, d)
			}
		}
	}
	return out, true
}

// anything stands for what a pattern leaves open.
const anything = "any-0"

// examples are paths that a pattern covers: with few and with many segments.
func examples(pattern string) (out []string) {
	for _, deep := range []string{anything, strings.Repeat(anything+"/", 6) + anything} {
		out = append(out, strings.ReplaceAll(strings.ReplaceAll(pattern, "**", deep), "*", anything))
	}
	return out
}
