package tunnels

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// unseen are the resources, by name, whose policies look at what nobody knows any more of a request that was upgraded: headers other than its method, path
// and host, and what its token said. Their denials say nothing about it.
type unseen map[string]bool

func (u unseen) set(c Change) {
	if c.Type != extensionType {
		return
	}
	for i, name := range c.Names {
		delete(u, name)
		if i < len(c.Bodies) && looksFurther(c.Bodies[i]) {
			u[name] = true
		}
	}
}

// mean says whether a denial of a client's request says nothing, since what denies by that policy looks at what nobody knows. What no policy denies is not there any more, whatever
// there was to see.
func (u unseen) mean(by record.Object, client string) bool {
	switch {
	case by.Kind == wire.EgressPolicy && client == "": // at a forward proxy, which keeps one workload's
		return len(u) > 0
	case by.Kind == wire.EgressPolicy && by.Namespace == client && u[ofNamespace+client]:
		return true
	case by.Kind == wire.EgressPolicy: // the root namespace's, which is a client, too
		return u[ofRoot+client] || u[ofRoot+everybody]
	case by.Kind == wire.AuthorizationPolicy:
		for name := range u {
			if !strings.HasPrefix(name, ofNamespace) && !strings.HasPrefix(name, ofRoot) {
				return true
			}
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
