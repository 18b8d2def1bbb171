package tunnels

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// unseen are the resources, by name, whose policies look at what nobody knows any more of a request that was upgraded: headers other than its method, path
// and host, and what its token said. Their denials say nothing about it. Of a resource that has levels of several namespaces' clients (ownPolicies), those are in
// it that look so, each by how its clients are called, "…/ns/NAMESPACE/sa/"; "" is what is for all.
type unseen map[string]map[string]bool

func (u unseen) set(c Change) {
	if c.Type != extensionType {
		return
	}
	for i, name := range c.Names {
		delete(u, name)
		if i >= len(c.Bodies) || !looksFurther(c.Bodies[i]) {
			continue
		}
		u[name] = map[string]bool{"": true}
		if levels := levelsOf(c.Bodies[i]); name == ownPolicies && levels != nil {
			u[name] = maps.Collect(func(yield func(string, bool) bool) {
				for clients, level := range levels {
					if looksFurther(level) && !yield(clients, true) {
						return
					}
				}
			})
		}
	}
}

// mean says whether a denial of a client's request says nothing, since what denies by that policy looks at what nobody knows. What no policy denies is not there any more, whatever
// there was to see.
func (u unseen) mean(by record.Object, client string) bool {
	switch {
	case by.Kind == wire.EgressPolicy && client == "": // at a forward proxy, or a sidecar, which keep one workload's
		return len(u) > 0
	case by.Kind == wire.EgressPolicy && by.Namespace == client && u[ofNamespace+client] != nil:
		return true
	case by.Kind == wire.EgressPolicy && by.Namespace == client && u.within(client):
		return true
	case by.Kind == wire.EgressPolicy: // the root namespace's, which is a client, too
		return u[ofRoot+client] != nil || u[ofRoot+everybody] != nil || u[rootPolicies] != nil || u.any(func(name string) bool { return strings.HasPrefix(name, ofSeveral) })
	case by.Kind == wire.AuthorizationPolicy:
		return u.any(func(name string) bool { return !ofPolicies(name) })
	}
	return false
}

// any says whether the name of one of the resources is so.
func (u unseen) any(is func(name string) bool) bool {
	for name := range u {
		if is(name) {
			return true
		}
	}
	return false
}

// ofPolicies says whether EgressPolicies are kept by a resource of this name: a level, or a filter itself, for what a route leads elsewhere, too.
func ofPolicies(name string) bool {
	return slices.ContainsFunc([]string{ofNamespace, ofRoot, ofSeveral, rootPolicies, ownPolicies}, func(begins string) bool { return strings.HasPrefix(name, begins) })
}

// within says whether a namespace's own level looks so, among those of one resource.
func (u unseen) within(namespace string) bool {
	for clients := range u[ownPolicies] {
		if clients == "" || strings.HasSuffix(clients, "/ns/"+namespace+"/sa/") {
			return true
		}
	}
	return false
}

// headerInput is the end of the URL of the type by which a matcher looks at a header, and ofToken whom one names that looks at what a token said.
var headerInput, ofToken = []byte("/envoy.type.matcher.v3.HttpRequestHeaderMatchInput"), []byte(wire.TokenFilter)

func looksFurther(body []byte) bool {
	if bytes.Contains(body, ofToken) {
		return true
	}
	for {
		_, rest, found := bytes.Cut(body, headerInput)
		if !found {
			return false
		}
		input, _ := bytesField(rest)     // the value of an Any, whose type's URL came before
		name, known := bytesField(input) // HttpRequestHeaderMatchInput.header_name
		if !known || name[0] != ':' {
			return true
		}
		body = rest
	}
}

// bytesField is the first field of a message, where that is bytes, and some.
func bytesField(message []byte) ([]byte, bool) {
	_, kind, n := protowire.ConsumeTag(message)
	if n < 0 || kind != protowire.BytesType {
		return nil, false
	}
	value, n := protowire.ConsumeBytes(message[n:])
	return value, n > 0 && len(value) > 0
}

// The fields on the way to a resource's levels: of a TypedExtensionConfig, an Any, an ExtensionWithMatcher, and of matchers (xds.type.matcher.v3).
const (
	extensionConfig, anyValue, extensionMatcher = 2, 2, 3
	matcherList, matcherTree, listMatchers      = 1, 2, 1
	matcherOnMatch, onMatchMatcher              = 2, 1
	treePrefixes, mapEntries                    = 3, 1
	entryKey, entryValue                        = 1, 2
)

// levelsOf are the levels in a resource, by the beginning of their clients' identities; nil where it is no index of them (xds/translate/policyfilter). It may be about what goes outside
// alone, and says so first.
func levelsOf(resource []byte) map[string][]byte {
	matcher := inside(resource, extensionConfig, anyValue, extensionMatcher)
	if first := inside(matcher, matcherList, listMatchers, matcherOnMatch, onMatchMatcher); first != nil {
		matcher = first
	}
	var levels map[string][]byte
	fields(inside(matcher, matcherTree, treePrefixes), mapEntries, func(entry []byte) {
		if levels == nil {
			levels = map[string][]byte{}
		}
		levels[string(inside(entry, entryKey))] = inside(entry, entryValue)
	})
	return levels
}
