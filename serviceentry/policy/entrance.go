package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// entrance finds the ingress gateway that is meant, and the object by which it was found: NAMESPACE/NAME of a Gateway, of the Gateway API or Istio's, or of
// a Service of the gateway's pods; or, with labels, pods of that namespace, whatever the name.
func (q Question) entrance(s *registry.Snapshot) (registry.IngressCandidate, config.Key, error) {
	w, err := ParseWorkload(q.Gateway)
	if err != nil {
		return registry.IngressCandidate{}, config.Key{}, fmt.Errorf("--gateway %w", err)
	}
	if len(w.Labels) > 0 {
		who, is := s.IngressOf(w.Namespace, w.Labels, 0)
		if !is {
			return registry.IngressCandidate{}, config.Key{}, fmt.Errorf("--gateway %q: no Gateway selects pods of namespace %s with these labels, or they are an egress gateway", q.Gateway, w.Namespace)
		}
		said := s.TopologiesOf(w.Namespace, w.Labels)
		if len(said) > 1 {
			return registry.IngressCandidate{}, config.Key{}, fmt.Errorf("--gateway %q: pods of namespace %s with these labels do not say the same of the proxies in front of them (gatewayTopology); give more labels", q.Gateway, w.Namespace)
		}
		who.Topology = said[0]
		return registry.IngressCandidate{Ingress: who, Has: w.Labels}, config.Key{Kind: config.KindPod, Namespace: w.Namespace, Name: w.Name}, nil
	}
	var all []registry.IngressCandidate
	var by config.Key
	var problems []string
	for _, kind := range []config.Kind{config.KindKubeGateway, config.KindGateway, config.KindService} {
		key := config.Key{Kind: kind, Namespace: w.Namespace, Name: w.Name}
		found, err := s.IngressesOf(key)
		if err != nil {
			if knows(s, key) {
				problems = append(problems, err.Error())
			}
			continue
		}
		if all = append(all, found...); by.Kind == "" {
			by = key
		}
	}
	all = different(s, all)
	switch {
	case len(all) == 1:
		return all[0], by, nil
	case len(all) > 1:
		return registry.IngressCandidate{}, by, fmt.Errorf("--gateway %q: it is several gateways, to which not the same happens; say which: %s", q.Gateway, strings.Join(askable(all), ", "))
	case len(problems) > 0:
		return registry.IngressCandidate{}, by, fmt.Errorf("--gateway %q: %s; of pods that are yet to come, give their namespace and labels: NAMESPACE/NAME?label=value&…", q.Gateway, strings.Join(problems, "; "))
	default:
		return registry.IngressCandidate{}, by, fmt.Errorf("--gateway %q: there is no Gateway of that name, nor a Service of a gateway's pods", q.Gateway)
	}
}

// knows says whether there is such an object.
func knows(s *registry.Snapshot, key config.Key) bool {
	if key.Kind == config.KindService {
		_, ok := s.KubeService(registry.Ref{Namespace: key.Namespace, Name: key.Name})
		return ok
	}
	return s.Gateway(key) != nil || key.Kind == config.KindKubeGateway && s.World().Object(key) != nil
}

// different leaves out pods to which the same happens as to others of the list.
func different(s *registry.Snapshot, all []registry.IngressCandidate) (out []registry.IngressCandidate) {
	for _, p := range all {
		same := func(o registry.IngressCandidate) bool {
			return o.Ingress == p.Ingress && slices.Equal(s.Authorizing(o.Namespace, o.Has), s.Authorizing(p.Namespace, p.Has)) && slices.Equal(s.Verifying(o.Namespace, o.Has), s.Verifying(p.Namespace, p.Has))
		}
		if !slices.ContainsFunc(out, same) {
			out = append(out, p)
		}
	}
	return out
}

// askable is how to ask for each of several.
func askable(all []registry.IngressCandidate) (out []string) {
	for _, p := range all {
		labels := url.Values{}
		for k, v := range maps.All(p.Has) {
			labels.Set(k, v)
		}
		out = append(out, fmt.Sprintf("'%s/%s?%s'", p.Namespace, p.Service.Name, labels.Encode()))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// answerEntering explains what happens to what comes from outside to an ingress gateway.
func (q Question) answerEntering(s *registry.Snapshot, d Destination, claims func([]string) []string) (Explanation, error) {
	pods, by, err := q.entrance(s)
	if err != nil {
		return Explanation{}, err
	}
	x := IngressAttempt{Destination: d, Gateway: pods, By: by, Claims: claims, Secrets: q.Secrets}
	if q.Address != "" {
		if x.From, err = netip.ParseAddr(q.Address); err != nil {
			return Explanation{}, fmt.Errorf("--address %q: must be an address like 203.0.113.7", q.Address)
		}
	}
	v, reached := DecideIngressThrough(s, x)
	e := ExplainReached(Workload{}, d, v, reached)
	e.Suggestion = ""
	return e, nil
}
