package machines

import (
	"cmp"
	"slices"
)

// writers is how many writes are under way at once, of all namespaces together.
const writers = 16

// fairQueue says whose namespace's turn it is: that which has waited longest, since its last one or since it has something to do.
type fairQueue struct {
	underWay map[string]bool
	last     map[string]uint64 // of namespaces that have something to do: when that was
	clock    uint64
}

func newFairQueue() fairQueue {
	return fairQueue{underWay: map[string]bool{}, last: map[string]uint64{}}
}

// give chooses whose turn it is, among what each namespace would do first.
func (t *fairQueue) give(first map[string]work) (out []work) {
	for namespace := range t.last {
		if _, waits := first[namespace]; !waits && !t.underWay[namespace] {
			delete(t.last, namespace)
		}
	}
	t.clock++
	for namespace, w := range first {
		if _, waits := t.last[namespace]; !waits { // whoever comes, comes behind those that wait
			t.last[namespace] = t.clock
		}
		if !t.underWay[namespace] {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b work) int {
		return cmp.Or(cmp.Compare(t.last[a.key.Namespace], t.last[b.key.Namespace]), a.key.Compare(b.key))
	})
	out = out[:min(len(out), writers-len(t.underWay))]
	for _, w := range out {
		t.clock++
		t.underWay[w.key.Namespace], t.last[w.key.Namespace] = true, t.clock
	}
	return out
}

func (t *fairQueue) end(namespace string) { delete(t.underWay, namespace) }

func (t *fairQueue) full() bool { return len(t.underWay) >= writers }

func (t *fairQueue) under(namespace string) bool { return t.underWay[namespace] }
