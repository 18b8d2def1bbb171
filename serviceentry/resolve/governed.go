package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Governed says which policies of a level govern which workloads of a namespace, by what can be proved of them: the account in
// their certificate, and the address that they come from.
type Governed struct {
	// Accounts are those that differ from the others, by name; Others is for all others.
	Accounts []Account
	Others   Subject

	level  egresspolicy.Level // what it was made from
	people []registry.LabeledWorkload
	alone  bool
}

// Account is the workloads of one service account.
type Account struct {
	Name string
	Subject
}

// Subject is workloads that are told apart by their addresses, if by anything.
type Subject struct {
	// At are the addresses that are known, in order, each with the policies that select the workload there.
	At []WorkloadAddress
	// Level is for all other addresses. Where labels decide, those are nobody's that is known, and Unknown says that they are closed.
	Level   egresspolicy.Level
	Unknown bool

	by *egresspolicy.Policy // for whose sake
}

// WorkloadAddress is a workload's address.
type WorkloadAddress struct {
	Address netip.Addr
	Level   egresspolicy.Level
}

// GovernOne is for one workload, which a level selects whole.
func GovernOne(level egresspolicy.Level) Governed {
	return Governed{Others: Subject{Level: level}, level: level, alone: true}
}

// Govern tells the workloads of a namespace apart for a level.
func Govern(level egresspolicy.Level, people []registry.LabeledWorkload) Governed {
	named := map[string][]registry.LabeledWorkload{}
	for _, p := range level {
		for _, account := range p.Accounts {
			named[account] = nil
		}
	}
	if slices.ContainsFunc(level, (*egresspolicy.Policy).ByLabels) {
		for _, p := range people {
			named[p.Account] = append(named[p.Account], p)
		}
	}
	g := Governed{Others: subject(level, "", nil), level: level, people: people}
	for account, of := range named {
		g.Accounts = append(g.Accounts, Account{account, subject(level, account, of)})
	}
	slices.SortFunc(g.Accounts, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	return g
}

// subject tells an account's workloads apart.
func subject(level egresspolicy.Level, account string, people []registry.LabeledWorkload) Subject {
	by := decidingByLabels(level, account)
	if by == nil {
		return Subject{Level: level.Selecting(account, nil)}
	}
	levels, several := map[netip.Addr]egresspolicy.Level{}, map[netip.Addr]bool{}
	for _, p := range people {
		selected := level.Selecting(account, p.Labels)
		for _, at := range p.Addresses {
			if was, there := levels[at]; there && !slices.Equal(was, selected) {
				several[at] = true // nobody can tell who of them it is
			}
			levels[at] = selected
		}
	}
	s := Subject{Level: level.Selecting(account, nil), Unknown: true, by: by}
	for at, selected := range levels {
		if !several[at] {
			s.At = append(s.At, WorkloadAddress{at, selected})
		}
	}
	slices.SortFunc(s.At, func(a, b WorkloadAddress) int { return a.Address.Compare(b.Address) })
	return s
}

// decidingByLabels is the first policy that selects some of an account's workloads by labels; nil without one.
func decidingByLabels(level egresspolicy.Level, account string) *egresspolicy.Policy {
	for _, p := range level {
		if p.ByLabels() && (len(p.Accounts) == 0 || slices.Contains(p.Accounts, account)) {
			return p
		}
	}
	return nil
}

// By is the policy for whose sake unknown addresses are closed.
func (s *Subject) By() *egresspolicy.Policy { return s.by }

// Enforced is the same without policies that are observed only: those tell nobody apart.
func (g Governed) Enforced() Governed {
	switch {
	case !g.Observes():
		return g
	case g.alone:
		return GovernOne(g.level.Enforced())
	default:
		return Govern(g.level.Enforced(), g.people)
	}
}

// Observes says whether a policy is observed only, of those that it was made from.
func (g Governed) Observes() bool { return g.level.Observes() }

// Empty says that nobody is governed.
func (g Governed) Empty() bool { return !g.any(func(*egresspolicy.Policy) bool { return true }) }

// any says whether a policy in it is so.
func (g Governed) any(is func(*egresspolicy.Policy) bool) bool {
	if g.Others.any(is) {
		return true
	}
	return slices.ContainsFunc(g.Accounts, func(a Account) bool { return a.any(is) })
}

func (s Subject) any(is func(*egresspolicy.Policy) bool) bool {
	return slices.ContainsFunc(s.Level, is) || s.Unknown && is(s.by) ||
		slices.ContainsFunc(s.At, func(a WorkloadAddress) bool { return slices.ContainsFunc(a.Level, is) })
}

// RootLevels are the root namespace's policies as gateways keep them.
type RootLevels struct {
	// Of gives the name of a namespace's level, where it is not that of all others; Others is that one's name, "" where it is empty.
	Of     map[string]string
	Others string
	Levels map[string]RootLevel // by name
}

// RootLevel is a level, for one namespace where that is said, else for all that have it.
type RootLevel struct {
	Namespace string
	level     egresspolicy.Level
	people    []registry.LabeledWorkload
}

// About is the level as far as it may decide about some hosts (egresspolicy.Level).
func (l RootLevel) About(hosts []string) RootLevel {
	l.level = l.level.About(hosts)
	return l
}

// Governed tells the workloads apart for it.
func (l RootLevel) Governed() Governed { return Govern(l.level, l.people) }

// Root says which policies of the root namespace are for which namespaces.
func Root(s *registry.Snapshot) RootLevels {
	out := RootLevels{Of: map[string]string{}, Levels: map[string]RootLevel{}}
	all := s.Policies(s.Mesh.RootNamespace)
	var mesh egresspolicy.Level
	for _, p := range all {
		if p.Namespaces == nil {
			mesh = append(mesh, p)
		}
	}
	if len(mesh) > 0 {
		out.Others = "root/*"
		out.Levels[out.Others] = RootLevel{level: mesh}
	}
	for _, ns := range apart(s, all) {
		level, name := s.RootPolicies(ns), ""
		switch {
		case len(level) == 0 && len(mesh) == 0 || len(level) == len(mesh) && !slices.ContainsFunc(level, (*egresspolicy.Policy).ByLabels):
			continue
		case slices.ContainsFunc(level, (*egresspolicy.Policy).ByLabels):
			name = "root/" + ns
			out.Levels[name] = RootLevel{ns, level, s.People(ns)}
		default:
			name = "root=" + names(level)
			out.Levels[name] = RootLevel{level: level}
		}
		out.Of[ns] = name
	}
	return out
}

// apart are the namespaces for which not just the policies for all count.
func apart(s *registry.Snapshot, all egresspolicy.Level) []string {
	var out []string
	for _, p := range all {
		if p.Namespaces != nil {
			out = append(out, p.Namespaces.Names...)
			for _, ns := range s.LabelledNamespaces() {
				if s.MeansNamespace(p, ns) {
					out = append(out, ns)
				}
			}
		}
		if p.ByLabels() {
			out = append(out, s.PeopledNamespaces()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func names(level egresspolicy.Level) string {
	var out []string
	for _, p := range level {
		out = append(out, p.Key.Name)
	}
	text := strings.Join(out, ",")
	if len(text) > longest {
		text = fmt.Sprintf("%s…%x", text[:longest], xxhash.Sum64String(text))
	}
	return text
}

// longest is how much of the names of a level's policies is in its own.
const longest = 120
