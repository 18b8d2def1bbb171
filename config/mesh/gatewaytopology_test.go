package mesh

import (
	"slices"
	"strings"
	"testing"
)

// TestTopologyOf: what pods say counts in place of all that the mesh says, as with Istio: also that nobody is in front of them.
func TestTopologyOf(t *testing.T) {
	mesh := Ingress{TrustedProxies: 1, ClientCertificates: AppendForward, ProxyProtocol: true, HTTP3: true}
	for text, want := range map[string]Ingress{
		"":                        mesh,
		"concurrency: 2":          mesh,
		"gatewayTopology:":        mesh,
		"gatewayTopology: null":   mesh,
		"gatewayTopology: {}":     {HTTP3: true},
		"{gatewayTopology: {}, }": {HTTP3: true},
		"gatewayTopology: {numTrustedProxies: 0, proxyProtocol: {}}":             {ProxyProtocol: true, HTTP3: true},
		"gatewayTopology: {numTrustedProxies: 2}":                                {TrustedProxies: 2, HTTP3: true},
		`{"gatewayTopology": {"proxyProtocol": {}}}`:                             {ProxyProtocol: true, HTTP3: true},
		"gatewayTopology: {forwardClientCertDetails: SANITIZE_SET}":              {ClientCertificates: WriteAnew, HTTP3: true},
		"gatewayTopology: {forwardClientCertDetails: ALWAYS_FORWARD_ONLY}\na: 1": {ClientCertificates: AlwaysForward, HTTP3: true},
	} {
		said, err := TopologyOf(text)
		if got := mesh.With(said); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		only, err := OnlyTopology(text + "\n")
		again, err2 := TopologyOf(only)
		if err != nil || err2 != nil || again != said || strings.Contains(only, "concurrency") || (only == "") == said.Said {
			t.Errorf("%q: %q, %v, %v", text, only, err, err2)
		}
	}
	if got := BesideTopology("{gatewayTopology: {}, tracing: {}, concurrency: 2}"); !slices.Equal(got, []string{"concurrency", "tracing"}) {
		t.Errorf("beside it: %v", got)
	}
	for text, want := range map[string]string{
		"gatewayTopology: {numTrustedProxies: 65}":            "gatewayTopology.numTrustedProxies: \"65\": is more than 64",
		"gatewayTopology: {numTrustedProxies: -1}":            "gatewayTopology: ",
		"gatewayTopology: {numTrustedProxy: 1}":               "numTrustedProxy",
		"gatewayTopology: {forwardClientCertDetails: ALWAYS}": "gatewayTopology: ",
		"gatewayTopology: 2":                                  "gatewayTopology: ",
		"gatewayTopology: [":                                  "is no YAML",
		"hello":                                               "is no ProxyConfig",
	} {
		_, err := TopologyOf(text)
		_, err2 := OnlyTopology(text)
		if err == nil || err2 == nil || !strings.Contains(err.Error(), want) || err.Error() != err2.Error() {
			t.Errorf("%q: %v, %v, want %q", text, err, err2, want)
		}
	}
}
