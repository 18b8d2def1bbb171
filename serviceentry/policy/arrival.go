package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// Target reads to whose pod it comes.
func (q Question) Target() (Workload, error) {
	w, err := ParseWorkload(q.To)
	if err != nil {
		return w, fmt.Errorf("--to %w", err)
	}
	return w, nil
}

// Workloads reads who asks, who may be nobody of the mesh where it is said to whose pod it comes, and whose pod that is. At an ingress gateway it is
// neither.
func (q Question) Workloads() (from, to Workload, err error) {
	if q.Gateway != "" {
		return from, to, nil
	}
	if q.To != "" {
		if to, err = q.Target(); err != nil {
			return from, to, err
		}
	}
	if q.To != "" && q.From == "" {
		q.From = to.Namespace + "/" + to.Name // of which nothing but --address is read
	}
	from, err = q.Workload()
	return from, to, err
}

// Answer explains what happens to what a workload sends; with To, what the pod does about what comes from it, or, without From, from outside of the
// mesh. from and to are the workloads that are meant. With Gateway it is explained what happens to what somebody outside sends there.
func (q Question) Answer(s *registry.Snapshot, from, to Workload, d Destination) (Explanation, error) {
	claims, err := claimsOf(q.Claims)
	if err != nil {
		return Explanation{}, err
	}
	if q.Gateway != "" {
		return q.answerEntering(s, d, claims)
	}
	if q.To == "" {
		if claims != nil {
			return Explanation{}, fmt.Errorf("--claim: tokens are read where something comes in: say the pod with --to NAMESPACE/WORKLOAD, or the ingress gateway with --gateway NAMESPACE/NAME")
		}
		v, pods := DecideThrough(s, from, d)
		return ExplainReached(from, d, v, pods), nil
	}
	a := InboundAttempt{Pod: to, Port: d.Port, Node: asking{snap: s, workload: to}.ambient(), From: from.Address, Kind: kindOf(d.Scheme)}
	if !a.Pod.Address.IsValid() {
		a.Pod.Address = addressOf(s, to)
	}
	if d.Scheme.IsTLS() {
		a.SNI = d.Host
	}
	if a.Kind == resolve.Requests {
		a.Request = resolve.RequestOf(d, resolve.Attempt{Kind: resolve.Requests, Name: d.Host})
		a.Request.Claims = claims
	}
	mode, _ := s.Modes(to.Namespace, to.Labels).At(d.Port)
	if a.Mutual = q.From != "" && !q.Plaintext && s.Mesh.MutualTLS && mode != registry.Disable; a.Mutual {
		a.Client, a.SNI = ClientOf(s, from.Namespace, asking{snap: s, workload: from}.account()), resolve.SNI(d.Port, "", d.Host)
	}
	e := Explain(from, d, DecideInbound(s, a))
	e.Suggestion = ""
	return e, nil
}

// addressOf is the address of one of the pods that are meant, which says what their ports are called; not valid where none is known.
func addressOf(s *registry.Snapshot, pod Workload) netip.Addr {
	for _, k := range s.GatewaysOf(pod.Namespace, pod.Labels) {
		set := s.EndpointSet(k.Ref.Host())
		if set == nil {
			continue
		}
		for _, e := range set.List {
			if addr, err := netip.ParseAddr(e.Address); err == nil && e.Cluster == "" && carries(e.Labels, pod.Labels) {
				return addr
			}
		}
	}
	if len(pod.Labels) > 0 {
		return s.LedAddress(pod.Namespace, pod.Labels)
	}
	return netip.Addr{}
}

// claimsOf reads a token's claims, those as words that proxies always read so; nil for no token.
func claimsOf(list []string) (func(path []string) []string, error) {
	all := map[string][]string{}
	for _, c := range list {
		name, value, ok := strings.Cut(c, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--claim %q: must be NAME=VALUE, like iss=https://issuer.example", c)
		}
		values := []string{value}
		if slices.Contains(tokens.AlwaysDelimited, name) {
			values = strings.Fields(value)
		}
		all[name] = append(all[name], values...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return func(path []string) []string { return slices.Clone(all[strings.Join(path, ".")]) }, nil
}
