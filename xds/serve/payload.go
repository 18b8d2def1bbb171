package serve

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sallyport/sallyport/xds/compress"
	"github.com/sallyport/sallyport/xds/resource"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/mem"
)

// payload is the resources of an answer: the bytes that were sealed, one after the other. Whoever is sent a resource
// is sent the same bytes, which are never copied for it, and whoever reads compressed answers the same frames.
type payload struct {
	runs    []*run    // one after the other
	count   int       // resources
	size    int       // bytes
	version string    // hash over the resources' versions
	asked   time.Time // when it was last asked for
	ends    bool      // it will be let go of
}

// run is resources that are compressed together, none of them empty. Payloads share it.
type run struct {
	resources []*resource.Resource
	size      int
	whole     func() mem.Buffer // the frame
	bare      func() mem.Buffer // without versions
}

// runSize is about how many bytes a run has: enough to compress well, and few enough that most of what a class has, which is
// nearly like another one, is in runs of both. Tests change it.
var runSize = 64 << 10

func newRun(resources []*resource.Resource, size int) *run {
	return &run{resources, size, sync.OnceValue(func() mem.Buffer {
		return frame(func(yield func([]byte) bool) {
			for _, r := range resources {
				if !yield(r.Wire()) {
					return
				}
			}
		})
	}), sync.OnceValue(func() mem.Buffer {
		return frame(func(yield func([]byte) bool) {
			for _, r := range resources {
				if head, rest := r.Unversioned(); !yield(head) || !yield(rest) {
					return
				}
			}
		})
	})}
}

// frame compresses parts together; by pointer, so that nothing is allocated when it is sent.
func frame(parts iter.Seq[[]byte]) mem.Buffer {
	f := mem.SliceBuffer(compress.Frame(parts))
	return &f
}

func (r *run) frame(form compress.Form) mem.Buffer {
	if form == compress.Bare {
		return r.bare()
	}
	return r.whole()
}

func pack(resources []*resource.Resource) *payload {
	p, h := &payload{}, xxhash.New()
	p.add(resources)
	for _, r := range resources {
		_, _ = h.WriteString(r.Version)
	}
	p.version = strconv.FormatUint(h.Sum64(), 16)
	return p
}

// add puts resources behind the others, in runs of their own.
func (p *payload) add(list []*resource.Resource) {
	begin, size := 0, 0
	for i, r := range list {
		if size += r.Size(); size >= runSize || i == len(list)-1 {
			p.addRun(newRun(list[begin:i+1:i+1], size))
			begin, size = i+1, 0
		}
	}
}

func (p *payload) addRun(r *run) {
	p.runs, p.count, p.size = append(p.runs, r), p.count+len(r.resources), p.size+r.size
}

// but is everything of a type, in order of names, as a view has them that is kept as what differs in these names,
// in order. Runs in which nothing differs are shared.
func (p *payload) but(names iter.Seq[string], get func(name string) (*resource.Resource, bool)) *payload {
	out, h := &payload{}, xxhash.New()
	_, _ = h.WriteString(p.version)
	next, stop := iter.Pull(names)
	defer stop()
	name, more := next()
	own := func(list []*resource.Resource) []*resource.Resource {
		_, _ = h.WriteString(name)
		r, ok := get(name)
		if name, more = next(); !ok {
			return list
		}
		_, _ = h.WriteString(r.Version)
		return append(list, r)
	}
	for _, r := range p.runs {
		var list []*resource.Resource
		rest := r.resources
		for last := rest[len(rest)-1].Name; more && name <= last; {
			before, after := around(rest, name)
			list, rest = own(append(list, before...)), after
		}
		if len(list) == 0 && len(rest) == len(r.resources) {
			out.addRun(r)
			continue
		}
		out.add(append(list, rest...))
	}
	var list []*resource.Resource
	for more {
		list = own(list)
	}
	out.add(list)
	out.version = strconv.FormatUint(h.Sum64(), 16)
	return out
}

// around splits a list, in order of names, where a name is or would be; it is in neither part.
func around(list []*resource.Resource, name string) (before, after []*resource.Resource) {
	i, there := slices.BinarySearchFunc(list, name, func(r *resource.Resource, name string) int { return strings.Compare(r.Name, name) })
	if there {
		return list[:i], list[i+1:]
	}
	return list[:i], list[i:]
}

// all goes through the resources in order.
func (p *payload) all() iter.Seq[*resource.Resource] {
	return func(yield func(*resource.Resource) bool) {
		for _, run := range p.runs {
			for _, r := range run.resources {
				if !yield(r) {
					return
				}
			}
		}
	}
}

func (p *payload) appendTo(out mem.BufferSlice) mem.BufferSlice {
	out = slices.Grow(out, p.count+1)
	for r := range p.all() {
		out = append(out, mem.SliceBuffer(r.Wire()))
	}
	return out
}

// smallest is from how many bytes on frames are smaller than what they hold.
const smallest = 192

// worthCompressing says whether its bytes go compressed to who reads that. Keys do not: how well they compress together with what others wrote would
// tell of them.
func (p *payload) worthCompressing() bool {
	return p.size >= smallest && p.runs[0].resources[0].Type != resource.Secret
}

// appendFrames adds the bytes as they go to who reads compressed answers.
func (p *payload) appendFrames(out mem.BufferSlice, form compress.Form) mem.BufferSlice {
	for _, r := range p.runs {
		out = append(out, r.frame(form))
	}
	return out
}
