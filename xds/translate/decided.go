package translate

import (
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

// decidedInOneTag is a base whose logs say in one tag what decided. All that say it in four are of bases: what comes to pods is nobody's to decide, and a port
// of UDP, which is a name's, has an entry for each client and none for what it sends.
type decidedInOneTag struct{ of baseInputs }

// forAgent is a base as the agents of a class read its logs.
func (c Class) forAgent(base baseInputs) baseInputs {
	if c.DecidedTag {
		return decidedInOneTag{base}
	}
	return base
}

// Resources are those of the base.
func (in decidedInOneTag) Resources() []*resource.Resource {
	out := in.of.Resources()
	for i, r := range out {
		if r.Type != resource.Listener {
			continue
		}
		l := &listenerv3.Listener{}
		if err := proto.Unmarshal(r.Value(), l); err != nil {
			panic(fmt.Sprintf("translate: listener %q does not unmarshal: %v", r.Name, err)) // this package marshalled it
		}
		if envoy.DecidedInOneTag(l) {
			out[i] = resource.Seal(r.Type, r.Name, l) // what else is the same for all was added before
		}
	}
	return out
}
