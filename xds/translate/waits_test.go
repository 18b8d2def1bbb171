package translate_test

import (
	"net/netip"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestListenersGetWhatTheyWaitFor: a listener opens when what its filters hold has come (ECDS), so each kind of proxy is given all of
// it, with policies and without.
func TestListenersGetWhatTheyWaitFor(t *testing.T) {
	nodes := map[translate.Kind]translate.Node{translate.Sidecar: teamA, translate.Gateway: gateway}
	forward := gateway
	forward.Forward = netip.MustParseAddrPort("127.0.0.1:3128").String()
	nodes[translate.Forward] = forward
	for seed := range uint64(4) {
		made := registrytest.NewWorld(seed)
		if seed > 0 {
			made.Governed(registrytest.Namespaces, []string{"a.test"})
		}
		cfg := mesh.Default()
		s, _ := registry.New(&cfg).Apply(changesOf(made.Objects, func(config.Key) bool { return true }))
		for kind, n := range nodes {
			class := translate.Classify(s, n)
			if class.Kind != kind {
				t.Fatalf("%s is of kind %v, want %v", n.ID, class.Kind, kind)
			}
			given := policyVersions(translate.BuildPolicies(s, translate.PolicedBy(s, n)))
			waits := 0
			translate.NewTranslator().Build(s, class).Walk(resource.Listener, func(r *resource.Resource) bool {
				for _, extension := range waitsFor(r.Value()) {
					waits++
					if given[resource.Ref{Type: resource.Extension, Name: extension}] == "" {
						t.Errorf("kind %v: listener %s waits for %s, which nobody sends", kind, r.Name, extension)
					}
				}
				return true
			})
			if waits == 0 {
				t.Errorf("kind %v: no listener waits for anything: this shows nothing", kind)
			}
		}
	}
}

// waitsFor are the names of what a listener's filters of requests ask for.
func waitsFor(value []byte) (names []string) {
	l := &listenerv3.Listener{}
	must(proto.Unmarshal(value, l))
	for _, chain := range append(l.FilterChains, l.GetDefaultFilterChain()) {
		for _, f := range chain.GetFilters() {
			m := &hcmv3.HttpConnectionManager{}
			if f.GetTypedConfig().UnmarshalTo(m) != nil {
				continue
			}
			for _, h := range m.HttpFilters {
				if h.GetConfigDiscovery() != nil {
					names = append(names, h.Name)
				}
			}
		}
	}
	return names
}
