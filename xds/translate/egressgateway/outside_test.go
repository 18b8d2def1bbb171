package egressgateway

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

func TestAnExitReachesHostsByDNSOnly(t *testing.T) {
	addresses := func(list ...string) (out []registry.Endpoint) {
		for _, a := range list {
			out = append(out, registry.Endpoint{Address: a})
		}
		return out
	}
	for name, c := range map[string]struct {
		in         registry.Service
		refused    []registry.RefusedEndpoint
		resolution registry.Resolution
		want       []registry.Endpoint
	}{
		"name":                {registry.Service{Traits: &registry.Traits{}, Host: "a.com", Resolution: registry.DNS}, nil, registry.DNS, addresses("a.com.")},
		"the client's choice": {registry.Service{Traits: &registry.Traits{}, Host: "a.com"}, nil, registry.DNS, addresses("a.com.")},
		"wildcard":            {registry.Service{Traits: &registry.Traits{}, Host: "*.a.com"}, nil, registry.DNS, nil},
		"localhost":           {registry.Service{Traits: &registry.Traits{}, Host: "localhost", Resolution: registry.DNS}, nil, registry.DNS, addresses("localhost.")},
		"named endpoints":     {registry.Service{Traits: &registry.Traits{}, Host: "a.com", Resolution: registry.DNS, Endpoints: addresses("b.com", "c.com.", "192.0.2.1")}, nil, registry.DNS, addresses("b.com.", "c.com.", "192.0.2.1")},
		"static":              {registry.Service{Traits: &registry.Traits{}, Host: "a.com", Resolution: registry.Static, Endpoints: addresses("192.0.2.1", "10.0.0.1")}, nil, registry.Static, addresses("192.0.2.1", "10.0.0.1")},
		"refused":             {registry.Service{Traits: &registry.Traits{}, Host: "a.com", Resolution: registry.Static, Endpoints: addresses("127.0.0.1", "192.0.2.1")}, []registry.RefusedEndpoint{{Address: "127.0.0.1"}}, registry.Static, addresses("192.0.2.1")},
		"one's own machine":   {registry.Service{Traits: &registry.Traits{}, Host: "a.com", Resolution: registry.Static, Endpoints: addresses("127.0.0.1")}, nil, registry.Static, addresses("127.0.0.1")},
	} {
		before := slices.Clone(c.in.Endpoints)
		got := asOutside(&c.in, registry.UpstreamRestrictions{Refused: c.refused})
		same := func(a, b registry.Endpoint) bool { return a.Address == b.Address }
		if got.Resolution != c.resolution || !slices.EqualFunc(got.Endpoints, c.want, same) {
			t.Errorf("%s: %v %+v", name, got.Resolution, got.Endpoints)
		}
		if !slices.EqualFunc(before, c.in.Endpoints, same) {
			t.Errorf("%s: the registry's own service was changed", name)
		}
	}
}
