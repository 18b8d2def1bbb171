package translate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate/farend"
)

// materials are what the hosts of a view need of Secrets, in order. Hosts name them; what is in them is the base's, so
// that a key that is exchanged is one resource for all hosts that use it.
func materials(s *registry.Snapshot, u uses) []farend.Material {
	all := map[registry.CredentialRef]registry.GivenCredential{}
	for g := range u.secrets {
		sum := all[g.Ref]
		all[g.Ref] = registry.GivenCredential{Ref: g.Ref, Pair: sum.Pair || g.Pair, Roots: sum.Roots || g.Roots}
	}
	var out []farend.Material
	for _, ref := range slices.SortedFunc(maps.Keys(all), func(a, b registry.CredentialRef) int {
		return cmp.Or(cmp.Compare(a.Bundle, b.Bundle), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		if c, _ := s.Credential(ref); c != nil {
			out = append(out, farend.Material{Given: all[ref], Credential: c})
		}
	}
	return out
}
