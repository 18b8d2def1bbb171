package machines

import (
	"time"

	"istio.io/api/annotation"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
)

// lookEvery is how often entries in the API server are looked at that nobody may hold any more.
const lookEvery = 5 * time.Second

// see notes an entry in the API server that a machine made by joining, or that it is gone. k.mu is held.
func (k *Keeper) see(c config.Change, joined bool) {
	delete(k.leaving, c.Key)
	if !joined {
		delete(k.joined, c.Key)
		return
	}
	k.joined[c.Key] = &seen{object: c.Object}
}

// left finds the entries that nobody has held for long enough: their replica is no more, or has not the machine's stream, or knew that it was
// gone and did not come to removing it. All are gone through, so it does so now and then only. k.mu is held.
func (k *Keeper) left(now time.Time) {
	if now.Sub(k.looked) < lookEvery {
		return
	}
	k.looked = now
	clear(k.leaving)
	for key, s := range k.joined {
		switch {
		case k.machines[key] != nil || !k.forsaken(s.object):
			s.since = time.Time{}
		case s.since.IsZero():
			s.since = now
		case now.Sub(s.since) >= max(Patience, k.Grace):
			k.leaving[key] = work{Entry: Entry{Left: s.object}, key: key, gone: true, since: s.since}
		}
	}
}

// forsaken says whether an entry of ours is held by no other replica.
func (k *Keeper) forsaken(o *config.Object) bool {
	namespace, pod, ok := machine.HolderOf(o.Annotations)
	if !ok {
		return false
	}
	return machine.Holder(namespace, pod) == k.Replica || o.Annotations[annotation.IoIstioDisconnectedAt.Name] != "" || k.Alive != nil && !k.Alive(namespace, pod)
}
