package translate_test

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestIngressRowsTurnFiltersOn: a row of an ingress gateway turns on, for all its routes, what one of them configures, and always has a route to do so by:
// Envoy leaves filters out where it finds none, and finds another one when a token was verified.
func TestIngressRowsTurnFiltersOn(t *testing.T) {
	c := cases(t)["ingress"]
	f := decode.File("v.yaml", []byte(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [plain.example.com]
  gateways: [public]
  http: [{match: [{headers: {"@request.auth.claims.group": {exact: orders}}}], fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, route: [{destination: {host: web, port: {number: 80}}}]}]
`))
	if len(f.Findings) > 0 {
		t.Fatal(f.Findings)
	}
	c.objects = append(slices.DeleteFunc(slices.Clone(c.objects), func(o config.Object) bool { return o.Key == f.Objects[0].Key }), f.Objects...)
	s := c.snapshot()
	v := translate.NewTranslator().Build(s, translate.Classify(s, c.node))
	r, ok := v.Get(resource.VirtualHost, "http.8080/plain.example.com")
	if !ok {
		t.Fatal("no row")
	}
	row := &routev3.VirtualHost{}
	must(r.Any().UnmarshalTo(row))
	if row.TypedPerFilterConfig["envoy.filters.http.fault"] == nil {
		t.Error("the row does not turn on the filter that its route configures")
	}
	last := row.Routes[len(row.Routes)-1]
	if last.Match.GetPrefix() != "/" || len(last.Match.Headers)+len(last.Match.DynamicMetadata) > 0 || last.GetDirectResponse().GetStatus() != 404 || !strings.Contains(last.GetDirectResponse().GetBodyFormat().GetTextFormatSource().GetInlineString(), "no route") {
		t.Errorf("its last route is not for all that none of the others means: %v", last)
	}
}
