package interpret

import (
	"slices"
	"strings"

	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"                         // is only unpacked
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/quic/v3"                                   // likewise
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"                             // likewise
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/filter_state_override/v3" // likewise
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/sni/v3"                   // likewise
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_selectors/on_demand_secret/v3"    // likewise
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// checkFields holds a message to what this package knows: each field that is set must be one that it reads, or one that
// changes nothing that it says. Anything else is unknown, wherever in the message it is.
func checkFields(where string, m protoreflect.Message) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		if a.TypeUrl == "" {
			return // says only that something is there
		}
		inner, err := a.UnmarshalNew()
		if err != nil {
			unknown("%s: %v", where, err)
		}
		checkFields(where, inner.ProtoReflect())
		return
	}
	name := string(m.Descriptor().FullName())
	if len(m.GetUnknown()) > 0 {
		unknown("%s: %s has fields that these Go types do not know", where, name)
	}
	if _, any := whole[name]; any {
		return
	}
	fields, ok := known[name]
	if !ok {
		unknown("%s: messages of type %s", where, name)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := where + ": " + string(f.Name())
		switch {
		case slices.Contains(fields.idle, string(f.Name())):
		case !slices.Contains(fields.read, string(f.Name())):
			unknown("%s, of %s, is set", at, name)
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if f.MapValue().Message() != nil {
					checkFields(at+"["+k.String()+"]", v.Message())
				}
				return true
			})
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				checkFields(at, v.List().Get(i).Message())
			}
		default:
			checkFields(at, v.Message())
		}
		return true
	})
}

// fields of a message that are read, and that change nothing here.
type fields struct{ read, idle []string }

func set(read, idle string) fields { return fields{strings.Fields(read), strings.Fields(idle)} }
