package translate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// inputs identifies everything that a host's part was made from: the part is a function of it.
type inputs struct {
	kind      Kind
	services  uint64 // hash over the registrations that count
	rule      uint64
	trust     trusts
	connect   time.Duration // the mesh's connectTimeout
	gateway   registry.Ref
	exit      bool   // the host is an egress gateway's own
	short     string // its short names, and its aliases'
	alias     string
	yields    string // the addresses that it wrote and another host has
	far       string // what is left out and closed of the registrations' far ends
	contested bool   // other namespaces registered it too
	root      string // namespace, where who comes first depends on it
	patterns  uint64 // hash over the registrations of patterns that cover the host, and their rules
	foreign   bool   // it is another namespace's
	shut      string // ports at which it is kept from other namespaces' patterns
	rest      outbound
	onDemand  bool
}

// host makes, or remembers, one host's share of a class's view; nil when the class does not see it.
func (t *Translator) host(s *registry.Snapshot, c Class, host string) *part {
	if c.Kind == Sidecar {
		return t.hostForSidecar(s, c, host)
	}
	return t.hostForExit(s, c, host)
}

func (t *Translator) hostForSidecar(s *registry.Snapshot, c Class, host string) *part {
	scope := s.ScopeByKey(c.Scope)
	svc := s.Visible(host, c.View, scope)
	if svc == nil {
		return nil
	}
	rule := s.Rule(svc, c.View, c.Selected)
	f := foundAs{
		far:    s.FarEnd(svc, rule, c.place()),
		yields: s.Yielded(svc, c.View, scope), contested: !svc.Exit.IsZero() && (contested(s, svc) || (scope != nil && svc.Wildcard())),
		foreign: s.Foreign(svc, c.View), shut: s.Shut(svc, c.View, scope),
	}
	if ref, ok := kubeRef(svc); ok {
		f.exit = s.IsExit(ref)
		f.short = shortNames(ref, c.View, svc.Headless())
	}
	for _, ref := range s.Aliases(host, c.View, scope) {
		f.alias = append(f.alias, ref.Host())
		f.short = append(append(f.short, ref.Host()), shortNames(ref, c.View, false)...)
	}
	f.short = slices.DeleteFunc(f.short, func(short string) bool { return s.Visible(short, c.View, scope) != nil })
	if len(svc.Addresses) > 0 || len(f.shut) > 0 {
		f.rest = outbound{s.AllowAny(scope), outboundPolicy(s, scope), len(f.shut) > 0 && s.DynamicDNS(scope)}
	}
	in := inputs{
		kind: Sidecar, services: svc.Hash, rule: ruleHash(rule), connect: s.Mesh.ConnectTimeout,
		exit: f.exit, short: strings.Join(f.short, " "), alias: strings.Join(f.alias, " "), yields: addressList(f.yields), contested: f.contested, rest: f.rest,
		far: f.far.Key(), foreign: f.foreign, shut: addressList(f.shut),
	}
	return t.remember(host, in, func() *part { return sidecarHost(svc, rule, f, s.Mesh.ConnectTimeout) })
}

// shortNames are what workloads call a Kubernetes service beside its full name, and the pods of a headless one.
func shortNames(ref registry.Ref, namespace string, headless bool) []string {
	out := []string{ref.Name + "." + ref.Namespace, ref.Name + "." + ref.Namespace + ".svc"}
	if namespace == ref.Namespace {
		out = append(out, ref.Name)
	}
	if headless {
		for _, name := range append([]string{ref.Host()}, out...) {
			out = append(out, "*."+name)
		}
	}
	return out
}

func addressList[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprint(list)
}

func (t *Translator) hostForExit(s *registry.Snapshot, c Class, host string) *part {
	own := registrationsAt(s, leaving(s, host, c), c)
	if len(own) == 0 {
		return nil
	}
	over := covering(s, own, c)
	in := inputs{
		kind: c.Kind, trust: trustsOf(s.Mesh), root: s.Mesh.RootNamespace, gateway: c.Gateway, onDemand: c.OnDemand, connect: s.Mesh.ConnectTimeout,
		services: combined(own, serviceHash), rule: combined(own, func(r registration) uint64 { return ruleHash(r.rule) }), far: farKeys(own),
	}
	for _, list := range over {
		in.far += "/" + farKeys(list)
		in.patterns = in.patterns*31 + combined(list, serviceHash)
		in.patterns = in.patterns*31 + combined(list, func(r registration) uint64 { return ruleHash(r.rule) })
	}
	return t.remember(host, in, func() *part {
		return exitHost(own, over, exitFor{trust: trustsOf(s.Mesh), connect: s.Mesh.ConnectTimeout, root: s.Mesh.RootNamespace, verified: c.Kind == Gateway, onDemand: c.OnDemand})
	})
}

func serviceHash(r registration) uint64 { return r.svc.Hash }

func farKeys(list []registration) (key string) {
	for _, r := range list {
		key += r.far.Key()
	}
	return key
}

// registrationsAt are registrations with what counts for them at an exit.
func registrationsAt(s *registry.Snapshot, list []*registry.Service, c Class) []registration {
	out := make([]registration, len(list))
	for i, svc := range list {
		out[i] = registrationAt(s, svc, c)
	}
	return out
}

// registrationAt is a registration with what counts for it at an exit.
func registrationAt(s *registry.Snapshot, svc *registry.Service, c Class) registration {
	r := registration{svc: svc}
	if c.Kind == Gateway {
		r.rule = s.ExitRule(svc)
	} else {
		r.rule = s.Rule(svc, svc.Namespace, "")
	}
	r.far = s.FarEnd(svc, r.rule, c.place())
	return r
}

// covering gives the patterns that cover a host and leave by the same gateway, where other namespaces than the host's
// one registered them.
func covering(s *registry.Snapshot, own []registration, c Class) (out [][]registration) {
	if c.Kind != Gateway {
		return nil // it asks for one namespace
	}
	one := own[0].svc.Namespace
	apart := slices.ContainsFunc(own, func(r registration) bool { return r.svc.Namespace != one })
	for _, list := range s.Patterns(own[0].svc.Host) {
		if list = attached(list, c); len(list) > 0 {
			out = append(out, registrationsAt(s, list, c))
			apart = apart || slices.ContainsFunc(list, func(svc *registry.Service) bool { return svc.Namespace != one })
		}
	}
	if !apart {
		return nil
	}
	return out
}

// kubeRef gives the Kubernetes service behind a registration, if one is.
func kubeRef(svc *registry.Service) (registry.Ref, bool) {
	return registry.Ref{Namespace: svc.Source.Namespace, Name: svc.Source.Name}, svc.Source.Kind == config.KindService
}

// leaving picks the registrations that leave by a class's exit: those attached to the gateway, or, at a forward
// proxy, the one that its namespace sees.
func leaving(s *registry.Snapshot, host string, c Class) []*registry.Service {
	if c.Kind == Forward {
		if svc := s.Visible(host, c.Namespace, nil); svc != nil && svc.External {
			return []*registry.Service{svc}
		}
		return nil
	}
	return attached(s.Services(host), c)
}

// attached picks the registrations that leave by a gateway.
func attached(list []*registry.Service, c Class) (out []*registry.Service) {
	for _, svc := range list {
		if svc.External && !c.Gateway.IsZero() && svc.Exit == c.Gateway {
			out = append(out, svc)
		}
	}
	return out
}

func ruleHash(r *registry.Rule) uint64 {
	if r == nil {
		return 0
	}
	return r.Hash
}

// combined is one hash for an ordered list of hashes: FNV-1a over their words.
func combined[T any](list []T, hash func(T) uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, x := range list {
		h = (h ^ hash(x)) * 1099511628211
	}
	return h
}

func (t *Translator) remember(host string, in inputs, produce func() *part) *part {
	for _, r := range t.memo[host] {
		if r.from == in {
			return r.part
		}
	}
	p := produce()
	t.memo[host] = append(t.memo[host], remembered{in, p})
	return p
}
