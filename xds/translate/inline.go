package translate

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

// inline gathers the hosts of a view being made, if its class wants that.
func (e *edit) inline() envoy.InlineHosts {
	if !e.next.Class.Inline {
		return nil
	}
	out := envoy.InlineHosts{}
	e.sets[resource.VirtualHost].Walk(func(name string, r *resource.Resource) bool {
		if strings.HasSuffix(name, "/"+envoy.Nobody) { // of a view of tables that need it
			return true
		}
		vh := &routev3.VirtualHost{}
		if err := proto.Unmarshal(r.Value(), vh); err != nil {
			panic(fmt.Sprintf("translate: virtual host %q does not unmarshal: %v", r.Name, err)) // this package marshalled it
		}
		table, _, _ := strings.Cut(name, "/")
		out[table] = append(out[table], vh)
		return true
	})
	return out
}
