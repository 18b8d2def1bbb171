package envoy

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/wire"
)

// TestFoldedRoutesAreTheSame: what is folded is what it was, in its order, and a row without routes stays one.
func TestFoldedRoutesAreTheSame(t *testing.T) {
	for _, row := range []*routev3.VirtualHost{
		{Name: "t/none", Domains: []string{"none"}},
		{Name: "t/two", Domains: []string{"two"}, Routes: []*routev3.Route{
			ClosedAnswer(wire.BlockAllRoute, "", "").Row(MatchQuestion("")), Route("default", MatchAnyRequest(), ToCluster("there")),
		}},
	} {
		folded := proto.Clone(row).(*routev3.VirtualHost)
		FoldRoutes(folded)
		if len(folded.Routes) > 0 || (folded.Matcher != nil) != (len(row.Routes) > 0) {
			t.Errorf("%s is folded to %v", row.Name, folded)
		}
		if err := UnfoldRoutes(folded); err != nil || !proto.Equal(folded, row) {
			t.Errorf("%s is unfolded to %v (%v), want %v", row.Name, folded, err, row)
		}
	}
}
