package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkDelegates warns of routes that are left out, since nobody may be asked for them: what they match falls to the routes behind.
func (w *world) checkDelegates(r *report, v *networking.VirtualService) {
	if len(v.Hosts) == 0 {
		w.checkLeftOut(r)
		return
	}
	if !slices.ContainsFunc(v.Http, func(h *networking.HTTPRoute) bool { return h.Delegate != nil }) {
		return
	}
	const so = ", so this route is left out, and what it matches falls to those behind it"
	for i, h := range v.Http {
		if h.Delegate == nil {
			continue
		}
		key := route.DelegateKey(h.Delegate, r.of.Namespace)
		field, value := at("spec.http", i, "delegate"), key.Namespace+"/"+key.Name
		switch _, why := w.delegate(key, r.of.Namespace); why {
		case notThere:
			r.warn(field, value, "there is no such VirtualService"+so, "write it, without hosts, or mend the name")
		case notDelegated:
			r.warn(field, value, "it has hosts of its own, and only one without any is a delegate"+so, "remove its spec.hosts, or name another one")
		case notExported:
			r.warn(field, value, fmt.Sprintf("it is not exported to namespace %s", r.of.Namespace)+so, fmt.Sprintf("let its spec.exportTo name %s", r.of.Namespace))
		}
	}
	routes, delegated := route.Parse(&r.of, v), w.delegated(r.of.Namespace)
	most, left := w.beyondShares(&r.of)
	if len(left) == 0 {
		for _, x := range routes.LeftOut(delegated) {
			r.warn(at("spec."+x.Field, "delegate"), x.By.Namespace+"/"+x.By.Name, "a match of its spec."+x.Own+" is not within one of this route's, so that the whole of that route is left out", "write matches there that are within this route's, or into this one what is to be delegated")
		}
	}
	for _, key := range left {
		name := key.Namespace + "/" + key.Name
		i := slices.IndexFunc(v.Http, func(h *networking.HTTPRoute) bool {
			return h.Delegate != nil && route.DelegateKey(h.Delegate, r.of.Namespace) == key
		})
		r.warn(at("spec.http", i, "delegate"), name, fmt.Sprintf("the delegates bring more than %d matches, each with each of the route's that delegates, and it more than its namespace's share and others leave: it is left out, not everywhere if it is named several times", most),
			"delegate by fewer matches, write fewer into the delegate, or write VirtualServices for fewer hosts")
	}
}

// checkLeftOut warns of a delegate by which there would be more matches than count.
func (w *world) checkLeftOut(r *report) {
	if w.delegating == nil {
		w.delegating = map[config.Key][]*config.Object{}
		for _, root := range w.virtual {
			routes := route.Parse(root, root.Spec.(*networking.VirtualService))
			for _, key := range routes.Delegates() {
				w.delegating[key] = append(w.delegating[key], root)
			}
		}
	}
	var by []string
	most := 0
	for _, root := range w.delegating[r.of.Key] {
		if n, left := w.beyondShares(root); slices.Contains(left, r.of.Key) {
			most, by = max(most, n), append(by, root.Key.String())
		}
	}
	if len(by) > 0 {
		slices.Sort(by)
		r.warn("spec.http", nil, fmt.Sprintf("it has more matches, each with each of the route's that delegates, than there is room for at %s, where delegates bring at most %d and each namespace's have their share: it is left out there", strings.Join(by, ", "), most),
			"write fewer matches, or delegate by fewer")
	}
}

// beyond are the delegates of a VirtualService that are left out, and how many matches all may bring.
type beyond struct {
	most int
	keys []config.Key
}

func (w *world) beyondShares(root *config.Object) (most int, left []config.Key) {
	b, known := w.beyond[root.Key]
	if !known {
		v := root.Spec.(*networking.VirtualService)
		if len(v.Hosts) > 0 {
			b.most, b.keys = route.Parse(root, v).TooManyDelegated(len(v.Hosts), w.delegated(root.Namespace))
		}
		if w.beyond == nil {
			w.beyond = map[config.Key]beyond{}
		}
		w.beyond[root.Key] = b
	}
	return b.most, b.keys
}

// delegated gives the routes of delegates that a namespace may use.
func (w *world) delegated(by string) func(config.Key) (route.Routes, bool) {
	return func(key config.Key) (route.Routes, bool) {
		o, _ := w.delegate(key, by)
		if o == nil {
			return route.Routes{}, false
		}
		return route.Parse(o, o.Spec.(*networking.VirtualService)), true
	}
}

// Why a delegate is none.
type noDelegate int

const (
	isDelegate noDelegate = iota
	notThere
	notDelegated
	notExported
)

// delegate gives a delegate that a namespace may use.
func (w *world) delegate(key config.Key, by string) (*config.Object, noDelegate) {
	o := w.virtual[key]
	if o == nil {
		return nil, notThere
	}
	spec := o.Spec.(*networking.VirtualService)
	if len(spec.Hosts) > 0 {
		return nil, notDelegated
	}
	exports := spec.ExportTo
	if len(exports) == 0 {
		exports = w.cfg.DefaultVirtualServiceExportTo
	}
	for _, ns := range exports {
		if ns == "*" || ns == by || ns == "." && key.Namespace == by {
			return o, isDelegate
		}
	}
	if len(exports) == 0 {
		return o, isDelegate
	}
	return nil, notExported
}
