package serve

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/xds/resource"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/mem"
)

// payload is the resources of an answer: the bytes that were sealed, one after the other. Whoever is sent a resource
// is sent the same bytes, which are never copied for it.
type payload struct {
	runs    [][]*resource.Resource // one after the other
	count   int                    // resources
	size    int                    // bytes
	version string                 // hash over the resources' versions
	ends    bool                   // it will be let go of
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

func (p *payload) add(run []*resource.Resource) {
	p.runs, p.count = append(p.runs, run), p.count+len(run)
	for _, r := range run {
		p.size += len(r.Wire)
	}
}

// but is everything of a type, of one run in order of names, as a view has them that is kept as what differs in these names,
// in order. What does not differ is not listed again.
func (p *payload) but(names iter.Seq[string], get func(name string) (*resource.Resource, bool)) *payload {
	out, h := &payload{}, xxhash.New()
	_, _ = h.WriteString(p.version)
	rest := p.runs[0]
	for name := range names {
		i, there := slices.BinarySearchFunc(rest, name, func(r *resource.Resource, name string) int { return strings.Compare(r.Name, name) })
		out.add(rest[:i])
		if rest = rest[i:]; there {
			rest = rest[1:]
		}
		_, _ = h.WriteString(name)
		if r, ok := get(name); ok {
			out.add([]*resource.Resource{r})
			_, _ = h.WriteString(r.Version)
		}
	}
	out.add(rest)
	out.version = strconv.FormatUint(h.Sum64(), 16)
	return out
}

// all goes through the resources in order.
func (p *payload) all() iter.Seq[*resource.Resource] {
	return func(yield func(*resource.Resource) bool) {
		for _, run := range p.runs {
			for _, r := range run {
				if !yield(r) {
					return
				}
			}
		}
	}
}

func (p *payload) bytes() int { return p.size }

func (p *payload) appendTo(out mem.BufferSlice) mem.BufferSlice {
	out = slices.Grow(out, p.count+1)
	for r := range p.all() {
		out = append(out, (*mem.SliceBuffer)(&r.Wire)) // by pointer: nothing is allocated for it
	}
	return out
}
