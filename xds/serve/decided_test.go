package serve

import (
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate"
	nodewire "github.com/sallyport/sallyport/xds/wire"
)

// TestDecidedTagIsForThoseWhoReadIt: of whatever kind a proxy is, one tag says what decided where its agent says that it reads it, and nowhere else.
func TestDecidedTagIsForThoseWhoReadIt(t *testing.T) {
	settings := mesh.Default()
	s, _ := registry.New(&settings).Apply(nil)
	for _, id := range []string{"sidecar", "router", "waypoint", "ztunnel"} {
		for _, says := range []bool{false, true} {
			n := &core.Node{Id: id + "~10.0.0.1~p.n~n.svc.cluster.local", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
			if says {
				n.Metadata.Fields[nodewire.DecidedMetadata] = structpb.NewStringValue("true")
			}
			of, err := parseNode(n, false)
			if err != nil {
				t.Fatal(err)
			}
			if c := translate.Classify(s, of); c.DecidedTag != says {
				t.Errorf("%s, whose agent says %t: %+v", id, says, c)
			}
		}
	}
}
