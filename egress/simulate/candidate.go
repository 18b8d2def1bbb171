package simulate

import (
	"slices"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Propose makes the sides of a change: what is in force, all of which the registry has, beside what would be. It leaves the registry as it is.
func Propose(r *registry.Registry, inForce, changes []config.Change, now time.Time) *Sides {
	revisions := map[config.Key]string{}
	for _, c := range inForce {
		if c.Object != nil {
			revisions[c.Key] = c.Object.Revision
		}
	}
	return &Sides{Base: r.Snapshot(), Candidate: r.Would(changes...), Now: now, Revision: func(k config.Key) string { return revisions[k] }}
}

// Put are the changes that put objects there.
func Put(objects []config.Object) (changes []config.Change) {
	for i := range objects {
		changes = append(changes, config.Change{Key: objects[i].Key, Object: &objects[i]})
	}
	return changes
}

// Applied gives the objects that there would be: more take the places of those of the same names.
func Applied(there, more []config.Object) []config.Object {
	replaced := map[config.Key]bool{}
	for _, o := range more {
		replaced[o.Key] = true
	}
	all := slices.Clone(more)
	for _, o := range there {
		if !replaced[o.Key] {
			all = append(all, o)
		}
	}
	return all
}

// Objections are what admission says of the objects that change, among all that there would be, and did not say before.
func Objections(there, would, more []config.Object, m mesh.Config, now time.Time) (out []admission.Finding) {
	before := admission.CheckAt(there, m, now)
	for _, x := range admission.CheckAt(would, m, now) {
		if slices.ContainsFunc(more, func(o config.Object) bool { return o.Key == x.Key }) && !slices.Contains(before, x) && x.Severity != admission.Info {
			out = append(out, x)
		}
	}
	return out
}
