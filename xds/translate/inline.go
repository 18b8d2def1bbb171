package translate

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
)

// inline lists the virtual hosts of route tables, for clients that cannot take them one by one: VHDS needs delta
// streams. nil means that tables leave them out. What such a client is sent grows with the mesh; agents are not
// such clients.
type inline map[string][]*routev3.VirtualHost

func (in inline) of(table string) []*routev3.VirtualHost { return in[table] }

// inline gathers the hosts of a view being made, if its class wants that.
func (e *edit) inline() inline {
	if !e.next.Class.Inline {
		return nil
	}
	out := inline{}
	e.sets[VirtualHost].Walk(func(name string, r *Resource) bool {
		if strings.HasSuffix(name, "/"+nobody) { // of a view of tables that need it
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
