package gatewayapi

import (
	"iter"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// Opened are a Gateway's listeners: each is held against the others, so that they are found together, and once in a world. They are not changed: those
// of a ListenerSet that are as they were before are the same value.
type Opened struct {
	Own  []Listener
	Sets []*SetListeners // of the ListenerSets that it lets in, in order of precedence
}

// SetListeners are those of one ListenerSet.
type SetListeners struct {
	Set  *config.Object
	List []Listener
}

// Listeners are those of a Gateway.
func Listeners(w World, o *config.Object) *Opened {
	return w.Opened(o.Key, func() *Opened { return Open(w, o, nil, nil) })
}

// All goes through all of them: the Gateway's own, and then those of its ListenerSets.
func (o *Opened) All() iter.Seq[*Listener] {
	return func(yield func(*Listener) bool) {
		for i := range o.Own {
			if !yield(&o.Own[i]) {
				return
			}
		}
		for _, set := range o.Sets {
			for i := range set.List {
				if !yield(&set.List[i]) {
					return
				}
			}
		}
	}
}

// list are all of them.
func (o *Opened) list() (out []Listener) {
	for l := range o.All() {
		out = append(out, *l)
	}
	return out
}

// Of are those of one of its ListenerSets, or, of none, its own.
func (o *Opened) Of(w World, set config.Key) []Listener {
	if set.Name == "" {
		return o.Own
	}
	is := w.Object(set)
	if is == nil {
		return nil
	}
	if i, found := slices.BinarySearchFunc(o.Sets, is, func(s *SetListeners, is *config.Object) int { return Older(s.Set, is) }); found {
		return o.Sets[i].List
	}
	return nil
}

// Open finds them. What was found before of ListenerSets counts on, but for those that are to be read again; nil: nothing was.
func Open(w World, o *config.Object, was *Opened, again func(config.Key) bool) *Opened {
	spec := o.Spec.(*gatewayv1.GatewaySpec)
	out := &Opened{Own: make([]Listener, len(spec.Listeners))}
	for i := range spec.Listeners {
		out.Own[i] = listener(w, o, o, spec, &spec.Listeners[i])
	}
	for i := range out.Own {
		for j := range out.Own {
			if i != j {
				out.Own[i].clash(&out.Own[j])
			}
		}
	}
	if !Unacceptable(spec).Is() {
		out.Sets = readSets(w, o, was, again)
	}
	out.yieldToEarlier()
	return out
}

// readSets reads the listeners of the ListenerSets that a Gateway lets in.
func readSets(w World, g *config.Object, was *Opened, again func(config.Key) bool) []*SetListeners {
	spec, sets := g.Spec.(*gatewayv1.GatewaySpec), w.Sets(g.Key)
	var before []*SetListeners
	if was != nil {
		before = was.Sets
	}
	out := make([]*SetListeners, 0, len(sets))
	lets := map[string]bool{} // namespaces
	for _, set := range sets {
		in, known := lets[set.Namespace]
		if !known {
			in = letsIn(w, spec, g.Namespace, set.Namespace)
			lets[set.Namespace] = in
		}
		if !in {
			continue
		}
		for len(before) > 0 && Older(before[0].Set, set) < 0 {
			before = before[1:]
		}
		if len(before) > 0 && before[0].Set == set && !again(set.Key) {
			out = append(out, before[0])
			continue
		}
		read := &SetListeners{Set: set}
		for _, e := range set.Spec.(*gatewayv1.ListenerSetSpec).Listeners {
			read.List = append(read.List, listener(w, g, set, spec, &gatewayv1.Listener{Name: e.Name, Hostname: e.Hostname, Port: e.Port, Protocol: e.Protocol, TLS: e.TLS, AllowedRoutes: e.AllowedRoutes}))
		}
		out = append(out, read)
	}
	return out
}

// yieldToEarlier closes the listeners of ListenerSets that want what an earlier one has, and those that are too many.
func (o *Opened) yieldToEarlier() {
	taken := newTaken(len(o.Sets))
	for i := range o.Own {
		taken.add(&o.Own[i])
	}
	for n, set := range o.Sets {
		for i := range set.List {
			l := set.List[i]
			l.Conflict = Problem{}
			if earlier := taken.rival(&l); earlier != nil {
				l.yield(earlier)
			}
			for j := range i { // of one set the names differ
				l.yield(&set.List[j])
			}
			if !l.Conflict.Is() {
				l.Conflict = taken.room(&l)
			}
			if l.Conflict != set.List[i].Conflict { // what others may hold stays as it is
				if o.Sets[n] == set {
					set = &SetListeners{Set: set.Set, List: slices.Clone(set.List)}
					o.Sets[n] = set
				}
				set.List[i].Conflict = l.Conflict
			}
			taken.add(&set.List[i])
		}
	}
}
