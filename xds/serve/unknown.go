package serve

import (
	"slices"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/xds/resource"
)

// A pod decides what names its stream asks for, and what it asks for is kept as long as the stream lasts, and gone through while nobody else is served. Names of what is there are bounded
// by what is there. Of others so many are kept; the rest is answered, and forgotten (docs/adr/0231-names-that-nobody-has.md).

const (
	// mostAsked is how many names one request may have: more than a proxy of the largest mesh, which asks for the endpoints of each of its clusters when it comes back.
	mostAsked = 1 << 18
	// longestAsked is how many bytes one may have: a cluster's, of two hosts, has some six hundred.
	longestAsked = 1 << 10
	// mostUnknown is how many names of a type a stream may wait for that nobody has. What is told when it comes must have been asked for among the last half of them.
	mostUnknown = 8192
)

// boundNames refuses names that no proxy asks for.
func boundNames(names ...[]string) error {
	n := 0
	for _, list := range names {
		n += len(list)
		if i := slices.IndexFunc(list, func(name string) bool { return len(name) > longestAsked }); i >= 0 {
			return status.Errorf(codes.InvalidArgument, "xds: a request asks for a name of %d bytes; none has more than %d", len(list[i]), longestAsked)
		}
	}
	if n > mostAsked {
		return status.Errorf(codes.ResourceExhausted, "xds: a request has %d names; ask for %d at a time", n, mostAsked)
	}
	return nil
}

// boundDelta is boundNames for a request on a delta stream.
func boundDelta(req *discovery.DeltaDiscoveryRequest) error {
	if n := len(req.GetInitialResourceVersions()); n > mostAsked {
		return status.Errorf(codes.ResourceExhausted, "xds: a request says that it has %d resources, which are more than any proxy's", n)
	}
	return boundNames(req.GetResourceNamesSubscribe(), req.GetResourceNamesUnsubscribe())
}

// forgetUnknown bounds what a delta stream waits for that nobody has. It is called when what was asked for was looked for.
func (s *stream) forgetUnknown(t resource.Type, w *watch, asked []string) {
	unknown := s.unknown[t]
	for _, name := range asked {
		if name != "*" && !s.there(t, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > mostUnknown {
		oldest := len(unknown) - mostUnknown/2
		for _, name := range unknown[:oldest] {
			if !s.there(t, name) {
				delete(w.sub.SubscribedResources(), name)
				delete(w.sub.ReturnedResources(), name)
			}
		}
		unknown = slices.Clone(unknown[oldest:])
	}
	s.unknown[t] = unknown
}

func (s *stream) there(t resource.Type, name string) bool {
	_, there := s.find(t, name)
	return there
}

// withoutUnknown does as forgetUnknown does for a request of the state of the world, which names all that is waited for: it keeps the first of those that nobody has.
func (c *Cache) withoutUnknown(st *stream, t resource.Type, names []string) []string {
	if len(names) <= mostUnknown {
		return names
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	unknown := 0
	return slices.DeleteFunc(names, func(name string) bool {
		if name == "*" || st.there(t, name) {
			return false
		}
		unknown++
		return unknown > mostUnknown
	})
}
