package registry

import "github.com/sallyport/sallyport/config"

// Would is what the snapshot would be with the object, and leaves the registry as it is: the change is made and taken back, each at the
// cost of the change. The snapshot is for questions: it is not among those of which Apply says what changed.
func (r *Registry) Would(o *config.Object) *Snapshot {
	stands, snap := r.objects[o.Key], r.snap
	would, _ := r.Apply([]config.Change{{Key: o.Key, Object: o}})
	r.Apply([]config.Change{{Key: o.Key, Object: stands}})
	if would == snap {
		return snap
	}
	return would
}
