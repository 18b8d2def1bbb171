package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/serviceentry"
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
	f := foundAs{far: s.FarEnd(svc, rule, c.place()), yields: s.Yielded(svc, c.View, scope), contested: !svc.Exit.IsZero() && contested(s.Services(host), svc)}
	if ref, ok := kubeRef(svc); ok {
		f.exit = s.IsExit(ref)
		f.short = shortNames(ref, c.View, svc.Headless())
	}
	for _, ref := range s.Aliases(host, c.View, scope) {
		f.alias = append(f.alias, ref.Host())
		f.short = append(append(f.short, ref.Host()), shortNames(ref, c.View, false)...)
	}
	f.short = slices.DeleteFunc(f.short, func(short string) bool { return s.Visible(short, c.View, scope) != nil })
	if len(svc.Addresses) > 0 {
		f.rest = outbound{s.AllowAny(scope), outboundPolicy(s, scope)}
	}
	in := inputs{
		kind: Sidecar, services: svc.Hash, rule: ruleHash(rule), connect: s.Mesh.ConnectTimeout,
		exit: f.exit, short: strings.Join(f.short, " "), alias: strings.Join(f.alias, " "), yields: addressList(f.yields), contested: f.contested, rest: f.rest,
		far: f.far.Key(),
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

func addressList(list []netip.AddrPort) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprint(list)
}

func (t *Translator) hostForExit(s *registry.Snapshot, c Class, host string) *part {
	list := leaving(s, host, c)
	if len(list) == 0 {
		return nil
	}
	regs := make([]registration, len(list))
	far := ""
	for i, svc := range list {
		regs[i] = registrationAt(s, svc, c)
		far += regs[i].far.Key()
	}
	in := inputs{
		kind: c.Kind, trust: trustsOf(s.Mesh), gateway: c.Gateway, onDemand: c.OnDemand, connect: s.Mesh.ConnectTimeout,
		services: combined(list, func(svc *registry.Service) uint64 { return svc.Hash }), rule: combined(regs, func(r registration) uint64 { return ruleHash(r.rule) }),
		far: far,
	}
	return t.remember(host, in, func() *part {
		return exitHost(regs, exitFor{trust: trustsOf(s.Mesh), connect: s.Mesh.ConnectTimeout, verified: c.Kind == Gateway, onDemand: c.OnDemand})
	})
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

// kubeRef gives the Kubernetes service behind a registration, if one is.
func kubeRef(svc *registry.Service) (registry.Ref, bool) {
	return registry.Ref{Namespace: svc.Source.Namespace, Name: svc.Source.Name}, svc.Source.Kind == serviceentry.KindService
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
	var out []*registry.Service
	for _, svc := range s.Services(host) {
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
