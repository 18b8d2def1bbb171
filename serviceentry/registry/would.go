package registry

import "github.com/sallyport/sallyport/config"

// Would is what the snapshot would be with changes, and leaves the registry as it is: they are made and taken back, each at the
// cost of the change. The snapshot is for questions: it is not among those of which Apply says what changed.
func (r *Registry) Would(changes ...config.Change) *Snapshot {
	snap, back := r.snap, make([]config.Change, len(changes))
	for i, c := range changes {
		back[i] = config.Change{Key: c.Key, Object: r.objects.Get(c.Key)}
	}
	defer r.Apply(back) // also where what was asked for cannot be tried
	would, _ := r.Apply(changes)
	if would == snap {
		return snap
	}
	return would
}
