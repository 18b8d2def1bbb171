package envoy_test

import (
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/envoy"
)

// TestAddedHeadersAreTexts: Envoy reads a header that an authorizer is told as a format, in which "%" begins something; here it is a sign.
func TestAddedHeadersAreTexts(t *testing.T) {
	a := envoy.Authorizer{Authorizer: &mesh.Authorizer{Added: []mesh.AuthorizerHeader{{Name: "x", Value: "100% of %REQ(a)%"}}}}
	added := a.Requests().GetHttpService().GetAuthorizationRequest().GetHeadersToAdd()
	if len(added) != 1 || added[0].Value != "100%% of %%REQ(a)%%" {
		t.Errorf("told as %v", added)
	}
}
