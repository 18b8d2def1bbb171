package registry

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/locality"
)

// localityNeeds is what a setting needs to know of where a client is, so that clients of which it is the same are told the same.
type localityNeeds struct {
	place, node bool
	labels      []string // keys
	counts      bool     // a setting counts, whatever it asks
}

func (a localityNeeds) nothing() bool { return !a.place && !a.node && len(a.labels) == 0 }

// words are a's in a form that can be counted.
func (a localityNeeds) words() (out []string) {
	if a.place {
		out = append(out, asksPlace)
	}
	if a.node {
		out = append(out, asksNode)
	}
	for _, key := range a.labels {
		out = append(out, asksLabel+key)
	}
	return out
}

const (
	asksPlace = "place"
	asksNode  = "node"
	asksLabel = "label "
)

func (a localityNeeds) and(b localityNeeds) localityNeeds {
	labels := a.labels
	for _, key := range b.labels {
		if !slices.Contains(labels, key) {
			labels = append(slices.Clip(labels), key)
		}
	}
	return localityNeeds{a.place || b.place, a.node || b.node, labels, a.counts || b.counts}
}

// of is what of a client is asked about.
func (a localityNeeds) of(c locality.Client) (out locality.Client) {
	if a.place {
		out.Locality = c.Locality
	}
	if a.node {
		out.Node = c.Node
	}
	if len(a.labels) > 0 {
		out.Labels = c.Only(a.labels)
	}
	return out
}

// asksOf is what a setting asks about.
func asksOf(s *locality.Setting) (a localityNeeds) {
	if s == nil {
		return a
	}
	a.counts, a.place = true, len(s.Priority) == 0 || len(s.Failover) > 0
	for _, label := range s.Priority {
		key, _, written := strings.Cut(label, "=")
		switch {
		case written || key == locality.LabelNetwork:
		case key == locality.LabelRegion || key == locality.LabelZone || key == locality.LabelSubzone:
			a.place = true
		case key == locality.LabelHost:
			a.node = true
		default:
			a.labels = append(a.labels, key)
		}
	}
	return a
}

// Spread is what the endpoints of a service are told apart by, for a rule's settings at a port; nil where they are asked alike.
func (n ClientLocation) Spread(svc *Service, t TrafficPolicy) *locality.Setting {
	return spread(svc, t, n.Default)
}

// spread: a rule's own setting stands in for what the Service asks for, and that for the mesh's, as in Istio.
func spread(svc *Service, t TrafficPolicy, def *networking.LocalityLoadBalancerSetting) *locality.Setting {
	fails := t.Outlier != nil
	if own := t.Balancer.GetLocalityLbSetting(); own != nil {
		return locality.Of(own, fails)
	}
	if list := svc.TrafficDistribution.priority(); list != nil {
		return &locality.Setting{Priority: list}
	}
	return locality.Of(def, fails)
}

// asksAt is what a service and its rule ask about a client.
func asksAt(svc *Service, r *DestinationRule, def *networking.LocalityLoadBalancerSetting) (a localityNeeds) {
	a.node = svc.NodeLocal
	if r == nil {
		return a.and(asksOf(spread(svc, TrafficPolicy{}, def)))
	}
	for _, t := range r.distinct {
		a = a.and(asksOf(spread(svc, t, def)))
	}
	return a
}

// tellApart notes the settings of a rule that differ in how endpoints are told apart, for whatever port and subset: each part of a setting stands
// in for a wider one's, so each localityLbSetting that is written counts with failures that are noticed, if any are, and without.
func (r *DestinationRule) tellApart() {
	balancers := []*networking.LoadBalancerSettings{nil}
	var outlier *networking.OutlierDetection
	read := func(list ...TrafficPolicy) {
		for _, t := range list {
			if t.Balancer.GetLocalityLbSetting() != nil {
				balancers = append(balancers, t.Balancer)
			}
			outlier = cmp.Or(outlier, t.Outlier)
		}
	}
	ofPorts := func(ports map[uint32]TrafficPolicy) {
		for _, port := range slices.Sorted(maps.Keys(ports)) {
			read(ports[port])
		}
	}
	read(r.traffic)
	ofPorts(r.portTraffic)
	for _, s := range r.Subsets {
		read(s.traffic)
		ofPorts(s.portTraffic)
	}
	for _, b := range balancers {
		r.distinct = append(r.distinct, TrafficPolicy{Balancer: b})
		if outlier != nil {
			r.distinct = append(r.distinct, TrafficPolicy{Balancer: b, Outlier: outlier})
		}
	}
}

// TrafficDistribution is which endpoints a Service asks to be sent to first: its trafficDistribution.
type TrafficDistribution string

// The values that count.
const (
	PrefersZone TrafficDistribution = "PreferSameZone"
	PrefersNode TrafficDistribution = "PreferSameNode"
)

// prefersOf reads it: a Service's field, else Istio's annotation, which ServiceEntries may have, too. PreferClose is the older name of PreferSameZone.
func prefersOf(o *config.Object, spec *corev1.Service) TrafficDistribution {
	text := o.Annotations[annotationDistribution]
	if spec != nil && spec.Spec.TrafficDistribution != nil {
		text = *spec.Spec.TrafficDistribution
	}
	switch text {
	case "PreferClose", string(PrefersZone):
		return PrefersZone
	case string(PrefersNode):
		return PrefersNode
	default:
		return ""
	}
}

const annotationDistribution = "networking.istio.io/traffic-distribution"

func (p TrafficDistribution) priority() []string {
	switch p {
	case PrefersZone:
		return []string{locality.LabelNetwork, locality.LabelRegion, locality.LabelZone}
	case PrefersNode:
		return []string{locality.LabelNetwork, locality.LabelRegion, locality.LabelZone, locality.LabelSubzone, locality.LabelHost}
	default:
		return nil
	}
}

// Client is where a workload is, as far as anything in the mesh asks about it. node is the Node that its pod is on; "" where nobody knows.
func (s *Snapshot) Client(labels map[string]string, node string) (c locality.Client) {
	if s.asked.nothing() {
		return c
	}
	c = s.asked.of(locality.Client{Locality: s.localityOf(labels, node), Node: node})
	if len(s.asked.labels) > 0 {
		own := map[string]string{}
		for _, key := range s.asked.labels {
			if v, has := labels[key]; has {
				own[key] = v
			}
		}
		c.Labels = selectorText(own)
	}
	return c
}

func (s *Snapshot) localityOf(labels map[string]string, node string) string {
	if own := locality.OfLabels(labels); own != "" {
		return own
	}
	return s.places[node]
}

// setPlace notes where a Node is, and has what its pods serve looked at again when that is another place.
func (b *batch) setPlace(c config.Change) {
	is := ""
	if c.Object != nil {
		is = locality.OfNode(c.Object.Labels)
	}
	if b.next.places[c.Key.Name] == is {
		return
	}
	next := maps.Clone(b.next.places)
	if next == nil {
		next = map[string]string{}
	}
	if next[c.Key.Name] = is; is == "" {
		delete(next, c.Key.Name)
	}
	b.next.places, b.index.places, b.placesMoved = next, next, true
	for ns, pods := range b.index.pods {
		for _, pod := range pods {
			if pod.Spec.NodeName == c.Key.Name {
				b.repopulate(b.index.selecting(ns, pod.Labels))
			}
		}
	}
}

// noteAsked notes what an object asks about clients now.
func (b *batch) noteAsked(key config.Key, now localityNeeds) {
	for _, word := range b.asking[key] {
		if b.askedAbout[word]--; b.askedAbout[word] == 0 {
			delete(b.askedAbout, word)
		}
	}
	delete(b.asking, key)
	if now.nothing() {
		return
	}
	b.asking[key] = now.words()
	for _, word := range b.asking[key] {
		b.askedAbout[word]++
	}
}

// noteAskedBy notes it of a Service, or a ServiceEntry.
func (b *batch) noteAskedBy(c config.Change) {
	svc := &Service{Traits: &Traits{}}
	if c.Object != nil {
		spec, _ := c.Object.Spec.(*corev1.Service)
		svc.TrafficDistribution, svc.NodeLocal = prefersOf(c.Object, spec), spec != nil && nodeLocal(spec)
	}
	b.noteAsked(c.Key, asksAt(svc, nil, nil))
}

// settleAsked says what is asked about clients now; who they are told apart by may be something else than before.
func (b *batch) settleAsked() {
	now := localityNeeds{place: b.askedAbout[asksPlace] > 0, node: b.askedAbout[asksNode] > 0}
	for _, word := range slices.Sorted(maps.Keys(b.askedAbout)) {
		if key, is := strings.CutPrefix(word, asksLabel); is {
			now.labels = append(now.labels, key)
		}
	}
	def := asksOf(locality.Of(b.next.Mesh.LocalityLb, false))
	now.place, now.node = now.place || def.place, now.node || def.node
	if b.placesMoved && (now.place || b.snap.asked.place) {
		b.changed.Views = true
	}
	if was := b.snap.asked; was.place != now.place || was.node != now.node || !slices.Equal(was.labels, now.labels) {
		b.next.asked, b.changed.Views = now, true
	}
}
