package serve

import (
	"slices"
	"strconv"

	"github.com/sallyport/sallyport/xds/resource"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/mem"
)

// payload is the resources of an answer: the bytes that were sealed, one after the other. Whoever is sent a resource
// is sent the same bytes, which are never copied for it.
type payload struct {
	resources []*resource.Resource
	size      int    // bytes
	version   string // hash over the resources' versions
	ends      bool   // it will be let go of
}

func pack(resources []*resource.Resource) *payload {
	p := &payload{resources: resources}
	h := xxhash.New()
	for _, r := range resources {
		p.size += len(r.Wire)
		_, _ = h.WriteString(r.Version)
	}
	p.version = strconv.FormatUint(h.Sum64(), 16)
	return p
}

func (p *payload) bytes() int { return p.size }

func (p *payload) appendTo(out mem.BufferSlice) mem.BufferSlice {
	out = slices.Grow(out, len(p.resources)+1)
	for _, r := range p.resources {
		out = append(out, (*mem.SliceBuffer)(&r.Wire)) // by pointer: nothing is allocated for it
	}
	return out
}
