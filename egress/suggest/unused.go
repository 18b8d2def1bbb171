package suggest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// used is what of the configuration in force somebody used.
type used struct {
	hosts map[usedHost]bool
	rules map[usedRule]bool
}

type usedHost struct {
	entry config.Key
	host  string
	port  uint32
}

// usedRule is a rule by its place, with a host and port that it was used for; without these, that it was used at all.
type usedRule struct {
	policy config.Key
	rule   int
	host   string
	port   uint32
}

// unused gives what nobody used: entries and rules to be removed, and what is narrower. What would close something that was seen is not
// among it. Objects that changes are about already are left alone.
func (w *world) unused(changes []Change, uses []*use, o Options) (out []Change) {
	log := o.Unused
	have := reach(log.Oldest, log.Since, o.Now)
	w.result.note("unused means without use since %s, in a log that reaches back %s", moment(log.Since), inDays(have))
	if wanted := o.Now.Sub(log.Since); wanted-have > wanted/100 {
		w.result.note("that is less than the %s that were asked for: what is used more seldom looks unused", inDays(wanted))
	}
	if log.Gaps > 0 || len(log.Cut) > 0 {
		w.result.note("nothing is suggested to be removed: records are missing in the log, so nobody knows what they used")
		return nil
	}
	all := o
	all.Denied, all.Namespace, all.Workload = true, "", ""
	old := *w
	old.result = &Result{Log: log}
	before := old.uses(all)
	is := w.use(before)
	for _, kind := range []config.Kind{config.KindServiceEntry, config.KindEgressPolicy} {
		for _, key := range w.keys(kind) {
			object := w.objects[key]
			if slices.ContainsFunc(changes, func(c Change) bool { return c.Key() == key }) || object.Created.After(log.Since) {
				continue
			}
			c := Change{Before: object, After: object}
			if kind == config.KindServiceEntry {
				w.lessEntry(&c, is)
			} else {
				w.lessPolicy(&c, is, log.Rules)
			}
			if c.After != c.Before {
				out = append(out, c)
			}
		}
	}
	return w.harmless(changes, out, slices.Concat(uses, before))
}

// use says what of the configuration uses are by.
func (w *world) use(uses []*use) used {
	is := used{map[usedHost]bool{}, map[usedRule]bool{}}
	s := w.with(nil, w.probe())
	for _, u := range uses {
		set := w.Snapshot.PolicySet(u.Namespace, u.Account, u.who.Labels)
		for _, to := range u.tries {
			v := w.decide(s, u.who, to)
			if v.Service != nil {
				port := registry.Port{Number: to.Port}
				if p, ok := v.Service.Port(to.Port); ok {
					port = p
				}
				for _, key := range []config.Key{v.Service.SourceOf(port), v.DecidedBy.Key} {
					is.hosts[usedHost{key, v.Service.Host, to.Port}] = true
				}
			}
			if v.Asked == nil {
				continue
			}
			for _, level := range []egresspolicy.Level{set.Root, set.Root.Enforced(), set.Own, set.Own.Enforced()} {
				if r := level.Rule(v.Asked); r.Rule != nil {
					i := slices.IndexFunc(r.Policy.Rules, func(x egresspolicy.Rule) bool { return x.Name == r.Rule.Name })
					is.rules[usedRule{policy: r.Policy.Key, rule: i}] = true
					is.rules[usedRule{r.Policy.Key, i, v.Asked.Host, v.Asked.Port}] = true
				}
			}
		}
	}
	return is
}

// lessEntry makes of an entry what of it is used.
func (w *world) lessEntry(c *Change, is used) {
	spec, ok := c.Before.Spec.(*networking.ServiceEntry)
	if !ok || spec.Location != networking.ServiceEntry_MESH_EXTERNAL || c.Before.Refused != "" || w.isRoutedTo(spec.Hosts) {
		return
	}
	key := c.Before.Key
	usedHosts, usedPorts := map[string]bool{}, map[uint32]bool{}
	for u := range is.hosts {
		if u.entry == key {
			usedHosts[u.host], usedPorts[u.port] = true, true
		}
	}
	if len(usedHosts) == 0 {
		c.After = nil
		c.Notes = append(c.Notes, fmt.Sprintf("nobody used %s", strings.Join(spec.Hosts, ", ")))
		if w.Snapshot.Mesh.OutboundAllowAny {
			c.Notes = append(c.Notes, "without it the host is one that nobody registered: ALLOW_ANY lets it through, past the egress gateway")
		}
		return
	}
	less := proto.CloneOf(spec)
	if len(spec.Addresses)+len(spec.Endpoints) == 0 && spec.WorkloadSelector == nil {
		less.Hosts = slices.DeleteFunc(less.Hosts, func(h string) bool { return !usedHosts[strings.ToLower(strings.TrimSuffix(h, "."))] })
	}
	less.Ports = slices.DeleteFunc(less.Ports, func(p *networking.ServicePort) bool { return !usedPorts[p.Number] })
	if len(less.Hosts) == 0 || len(less.Ports) == 0 || len(less.Hosts) == len(spec.Hosts) && len(less.Ports) == len(spec.Ports) {
		return
	}
	c.Notes = append(c.Notes, "narrower: nobody used its other hosts and ports")
	c.After = w.object(key, c.Before, less)
}

// isRoutedTo says whether a route or a rule names one of the hosts: then it is used by others than those who ask for it.
func (w *world) isRoutedTo(hosts []string) bool {
	for _, kind := range []config.Kind{config.KindVirtualService, config.KindDestinationRule} {
		for _, key := range w.keys(kind) {
			text, err := json.Marshal(w.objects[key].Spec)
			if err != nil || slices.ContainsFunc(hosts, func(h string) bool { return strings.Contains(string(text), `"`+h+`"`) }) {
				return true
			}
		}
	}
	return false
}

// lessPolicy takes rules away that allow and that nobody used, and of others the hosts and ports. What cannot be known stays: rules about
// headers, which no record has; and rules about paths, but where the log names those that allowed something.
func (w *world) lessPolicy(c *Change, is used, named map[seen.Rule]bool) {
	spec, ok := c.Before.Spec.(*v1alpha1.EgressPolicy)
	if !ok || c.Before.Refused != "" {
		return
	}
	key := c.Before.Key
	tells := key.Namespace != w.Snapshot.Mesh.RootNamespace && spec.Mode == v1alpha1.Mode_Enforce
	less := proto.CloneOf(spec)
	less.Rules = nil
	var gone []string
	narrower := false
	for i, r := range spec.Rules {
		name := r.Name
		if name == "" {
			name = fmt.Sprintf("rules[%d]", i)
		}
		byRequests := len(r.Paths)+len(r.Methods) > 0
		switch {
		case r.Action != v1alpha1.Action_Allow, len(r.Headers) > 0, r.NotBefore != nil && r.NotBefore.AsTime().After(w.now), byRequests && !tells,
			byRequests && named[seen.Rule{Namespace: key.Namespace, Policy: key.Name, Name: name}]:
			less.Rules = append(less.Rules, r)
		case is.rules[usedRule{policy: key, rule: i}]:
			n := w.lessRule(key, i, r, is)
			narrower = narrower || n != r
			less.Rules = append(less.Rules, n)
		case named[seen.Rule{Namespace: key.Namespace, Policy: key.Name, Name: name}]:
			less.Rules = append(less.Rules, r)
		default:
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 && !narrower {
		return
	}
	if len(gone) > 0 {
		c.Notes = append(c.Notes, "nobody used "+strings.Join(gone, ", "))
	}
	if narrower {
		c.Notes = append(c.Notes, "narrower: nobody used other hosts and ports of its rules")
	}
	if less.Default == v1alpha1.Action_Unset && !slices.ContainsFunc(less.Rules, func(r *v1alpha1.Rule) bool { return r.Action == v1alpha1.Action_Allow }) {
		less.Default = v1alpha1.Action_Deny
		c.Notes = append(c.Notes, "default: Deny is what it said by having a rule that allows")
	}
	c.After = w.object(key, c.Before, less)
}

// lessRule is a rule without the hosts and ports that nobody used it for; the rule itself, if there are none.
func (w *world) lessRule(key config.Key, i int, r *v1alpha1.Rule, is used) *v1alpha1.Rule {
	if len(r.Paths)+len(r.Methods) > 0 {
		return r
	}
	less := proto.CloneOf(r)
	less.Hosts = slices.DeleteFunc(less.Hosts, func(pattern string) bool {
		for u := range is.rules {
			if u.policy == key && u.rule == i && u.host != "" && egresspolicy.Covers(strings.ToLower(strings.TrimSuffix(pattern, ".")), u.host) {
				return false
			}
		}
		return true
	})
	less.Ports = slices.DeleteFunc(less.Ports, func(p uint32) bool {
		for u := range is.rules {
			if u.policy == key && u.rule == i && u.port == p {
				return false
			}
		}
		return true
	})
	if len(less.Hosts) == len(r.Hosts) && len(less.Ports) == len(r.Ports) || len(r.Hosts) > 0 && len(less.Hosts) == 0 || len(r.Ports) > 0 && len(less.Ports) == 0 {
		return r
	}
	return less
}

// harmless are those of some changes that close nothing that was seen allowed, with others applied.
func (w *world) harmless(others, changes []Change, uses []*use) []Change {
	for {
		s := w.with(slices.Concat(others, changes))
		at := -1
		for _, u := range uses {
			if at < 0 && u.keeps() && slices.ContainsFunc(u.allowed, func(to policy.Destination) bool { return !w.decide(s, u.who, to).Allowed }) {
				at = slices.IndexFunc(changes, func(c Change) bool { return w.closes(others, c, u) })
				if at < 0 && len(changes) > 0 {
					at = 0
				}
			}
		}
		if at < 0 {
			return changes
		}
		w.result.note("%s stays as it is: without a part of it something that was seen allowed would be denied", changes[at].Key())
		changes = slices.Delete(changes, at, at+1)
	}
}

// closes says whether a change by itself closes a use.
func (w *world) closes(others []Change, c Change, u *use) bool {
	s := w.with(append(slices.Clone(others), c))
	return slices.ContainsFunc(u.allowed, func(to policy.Destination) bool { return !w.decide(s, u.who, to).Allowed })
}
