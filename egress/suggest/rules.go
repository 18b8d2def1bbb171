package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// The bounds of a policy (config/admission).
const (
	mostRules = 256
	mostHosts = 256
	mostPaths = 64
)

// allowance is what the rules of a policy are to let through: by host, port and protocol, as policies are asked.
type allowance map[target]map[string]*seen.Paths // by method, of requests

type target struct {
	host     string
	port     uint32
	protocol egresspolicy.Protocol
}

// add takes in what is asked about a use. paths is nil where none are told apart.
func (a allowance) add(what *egresspolicy.Attempt, u *use, paths bool) {
	t := target{what.Host, what.Port, what.Protocol}
	if a[t] == nil {
		a[t] = map[string]*seen.Paths{}
	}
	if what.Protocol != egresspolicy.HTTP || !paths || u.paths == nil {
		return
	}
	if a[t][u.method] == nil {
		a[t][u.method] = &seen.Paths{}
	}
	a[t][u.method].Merge(u.paths)
}

// widen puts wildcards in the place of names that are so many, where such a wildcard is registered. It gives what it did.
func (a allowance) widen(siblings int, registered func(pattern string) bool) (notes []string) {
	below := map[string][]target{}
	for t := range a {
		if pattern := siblingsOf(t.host); siblings > 0 && pattern != "" && registered(pattern) {
			below[pattern] = append(below[pattern], t)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(below)) {
		var names []string
		for _, t := range below[pattern] {
			names = append(names, t.host)
		}
		slices.Sort(names)
		if names = slices.Compact(names); len(names) < siblings {
			continue
		}
		notes = append(notes, wildNote(pattern, names))
		for _, t := range below[pattern] {
			wide := target{pattern, t.port, t.protocol}
			if a[wide] == nil {
				a[wide] = map[string]*seen.Paths{}
			}
			for method, paths := range a[t] {
				if a[wide][method] == nil {
					a[wide][method] = &seen.Paths{}
				}
				a[wide][method].Merge(paths)
			}
			delete(a, t)
		}
	}
	return notes
}

// rules makes rules of it, in order: those without paths first, since a rule with paths denies what has no single meaning.
func (a allowance) rules(o Options) (out []*v1alpha1.Rule) {
	for n := 0; ; n++ {
		out = a.group(n)
		if len(out) <= mostRules || n == 2 {
			break
		}
	}
	names := map[string]bool{}
	for _, r := range out {
		r.Name = freeName(nameOf(r), names)
		r.Action, r.Reason, r.Owner, r.Ticket = v1alpha1.Action_Allow, "seen in the audit log", o.Owner, o.Ticket
		if !o.Expires.IsZero() {
			r.Expires = timestamppb.New(o.Expires)
		}
	}
	return out
}

// group makes rules that tell requests apart by all that is known (0), by methods (1), or not (2).
func (a allowance) group(loss int) (out []*v1alpha1.Rule) {
	byWhat := map[string]*v1alpha1.Rule{}
	for _, t := range slices.SortedFunc(maps.Keys(a), target.compare) {
		for _, r := range t.rules(a[t], loss) {
			what := fmt.Sprint(r.Ports, r.Protocols, r.Methods, r.Paths)
			if same := byWhat[what]; same != nil && len(same.Hosts) < mostHosts {
				same.Hosts = append(same.Hosts, t.host)
				continue
			}
			byWhat[what] = r
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *v1alpha1.Rule) int {
		return cmp.Or(cmp.Compare(min(len(a.Paths), 1), min(len(b.Paths), 1)), strings.Compare(a.Hosts[0], b.Hosts[0]), slices.Compare(a.Ports, b.Ports),
			slices.Compare(a.Protocols, b.Protocols), slices.Compare(a.Methods, b.Methods), slices.Compare(a.Paths, b.Paths))
	})
	return out
}

func (t target) compare(o target) int {
	return cmp.Or(strings.Compare(t.host, o.host), cmp.Compare(t.port, o.port), strings.Compare(string(t.protocol), string(o.protocol)))
}

// rules are those of one host and port.
func (t target) rules(methods map[string]*seen.Paths, loss int) (out []*v1alpha1.Rule) {
	rule := func() *v1alpha1.Rule { return &v1alpha1.Rule{Hosts: []string{t.host}, Ports: []uint32{t.port}} }
	if len(methods) == 0 || loss == 2 {
		r := rule()
		r.Protocols = []string{string(t.protocol)}
		return append(out, r)
	}
	byPaths := map[string]*v1alpha1.Rule{}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		var paths []string
		if loss == 0 {
			for _, x := range methods[method].Templates(mostPaths) {
				paths = append(paths, x.Pattern)
			}
		}
		key := strings.Join(paths, " ")
		if method == "" { // no rule can name it
			key = "\x00" + key
		}
		r := byPaths[key]
		if r == nil {
			r = rule()
			r.Paths = paths
			byPaths[key] = r
			out = append(out, r)
		}
		if method != "" {
			r.Methods = append(r.Methods, method)
		} else if len(paths) == 0 {
			r.Protocols = []string{string(t.protocol)}
		}
	}
	return out
}

// nameOf is what a rule is called: by its host or protocol, port and method, as far as it has one.
func nameOf(r *v1alpha1.Rule) string {
	name := "http"
	switch {
	case len(r.Hosts) == 1:
		name = policy.ObjectName(strings.TrimPrefix(r.Hosts[0], "*."))
		name = strings.Trim(name[:min(len(name), 40)], "-")
	case len(r.Protocols) == 1:
		name = strings.ToLower(r.Protocols[0])
	}
	name = fmt.Sprintf("%s-%d", name, r.Ports[0])
	if len(r.Methods) == 1 && len(r.Methods[0]) <= 10 {
		name += "-" + strings.ToLower(r.Methods[0])
	}
	return name
}

func freeName(wanted string, taken map[string]bool) string {
	name := wanted
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", wanted, n)
	}
	taken[name] = true
	return name
}
