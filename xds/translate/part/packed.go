package part

import (
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/sallyport/sallyport/xds/resource"
)

// Packing is how parts are packed: which resources, and where they are kept.
type Packing struct {
	Packs func(*resource.Resource) bool
	Keep  func([]*resource.Resource) resource.Packed
	Same  func(*Uses) *Uses // of equal ones always one, as far as it is known
	Found bool              // rows are found by what else than their names leads to them
	New   func() *Part      // makes room for a part
}

// Pack is the part with some of its resources packed, which a view finds by the host's name: a host costs that view little more than their bytes.
func (p *Part) Pack(host string, how Packing) *Part {
	out := how.New()
	out.Uses, out.sum = how.Same(p.Uses), p.content()
	var list []*resource.Resource
	for _, r := range p.Resources {
		if how.Packs(r) {
			list = append(list, r)
		} else {
			out.Resources = append(out.Resources, r)
		}
	}
	if how.Found {
		found := p.Found()
		out.found = &found
	}
	out.packed = how.Keep(list)
	return out
}

// Is says whether a packed part is what another one, as it was made, would be; a part that is not packed is only itself.
func (p *Part) Is(o *Part) bool {
	if p == nil || o == nil || p == o {
		return p == o
	}
	return p.sum != 0 && p.sum == o.content() && (p.Uses == o.Uses || reflect.DeepEqual(p.Uses, o.Uses))
}

// content is a hash over what the resources are, in order; never 0.
func (p *Part) content() uint64 {
	if p.sum != 0 {
		return p.sum
	}
	d := xxhash.New()
	for _, r := range p.Resources {
		_, _ = d.Write(binary.BigEndian.AppendUint64([]byte{byte(r.Type)}, uint64(len(r.Name))))
		_, _ = d.WriteString(r.Name)
		_, _ = d.WriteString(r.Version)
	}
	return max(d.Sum64(), 1)
}

// Packed are those resources; none of nil.
func (p *Part) Packed() resource.Packed {
	if p == nil {
		return resource.Packed{}
	}
	return p.packed
}

// Forget lets go of what Found has read of a packed part, which it reads again when it is asked for; of names only where there is none but the host's own.
func (p *Part) Forget(host string) {
	if p == nil || p.packed.Empty() || p.found == nil {
		return
	}
	if names := p.found.Names; slices.ContainsFunc(names, func(name string) bool { return name != host }) {
		p.found = &Found{Names: names, forgotten: true}
	} else {
		p.found = nil
	}
}

// Names are what finds the host, whose part it is, and is no address.
func (p *Part) Names(host string) []string {
	switch {
	case p == nil:
		return nil
	case p.packed.Empty():
		return p.Found().Names
	case p.found == nil:
		return []string{host}
	default:
		return p.found.Names
	}
}

// Below says whether something that finds the host is below a pattern, "*.DOMAIN".
func (p *Part) Below(host, pattern string) bool {
	if p.found == nil && !p.packed.Empty() {
		return below(host, pattern)
	}
	return slices.ContainsFunc(p.Names(host), func(name string) bool { return below(name, pattern) })
}
