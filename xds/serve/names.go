package serve

import discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

const (
	// mostNames is how many names are known again at a time: those that proxies ask for which do the same.
	mostNames = 8 << 10
	// longestName is how many bytes such a name has at most: no host has more than half of that, and somebody may ask for what is none.
	longestName = 512
)

// names gives of equal names one, mostly. What a stream asks for is remembered for as long as it lasts, and pods that do the same ask for the same: a
// text for each of them, made while it is answered, would lie among what that leaves behind. The zero value is ready.
type names map[string]string

// share has a request share the names that it asks for, and the versions that it has of them.
func (n *names) share(req *discovery.DeltaDiscoveryRequest) {
	had := req.GetInitialResourceVersions()
	for i, name := range req.GetResourceNamesSubscribe() {
		name = n.one(name)
		req.ResourceNamesSubscribe[i] = name
		if version, ok := had[name]; ok {
			had[name] = n.one(version) // also the name in the map is this one then
		}
	}
}

func (n *names) one(text string) string {
	if len(text) > longestName {
		return text
	}
	if known, ok := (*n)[text]; ok {
		return known
	}
	if *n == nil || len(*n) >= mostNames {
		*n = names{}
	}
	(*n)[text] = text
	return text
}
