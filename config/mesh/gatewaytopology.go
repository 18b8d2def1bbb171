package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config/decode/strict"
)

const (
	// ProxyConfigAnnotation of a gateway's pods, or of a Gateway of the Gateway API, holds Istio's ProxyConfig as YAML.
	ProxyConfigAnnotation = "proxy.istio.io/config"
	// ProxyConfigVariable is the environment variable by which a pod's agent is told it, and the key of the node metadata by which it tells the controller.
	ProxyConfigVariable = "PROXY_CONFIG"

	topologyField = "gatewayTopology"
)

// GatewayTopology is what a gateway's pods say of the proxies in front of them, in place of all that the mesh says; the zero value says nothing. It is comparable.
type GatewayTopology struct {
	Said               bool // else the mesh's counts
	TrustedProxies     uint32
	ProxyProtocol      bool
	ClientCertificates ClientCertificates
}

// With gives the settings of gateways whose pods say this.
func (i Ingress) With(t GatewayTopology) Ingress {
	if t.Said {
		i.TrustedProxies, i.ProxyProtocol, i.ClientCertificates = t.TrustedProxies, t.ProxyProtocol, t.ClientCertificates
	}
	return i
}

// readTopology reads Istio's gatewayTopology, whose place is at; nil says nothing.
func readTopology(at string, in *meshconfig.Topology) (t GatewayTopology, problems []strict.Problem) {
	if in == nil {
		return t, nil
	}
	if n := in.GetNumTrustedProxies(); n > maxTrustedProxies {
		problems = append(problems, problem(at+".numTrustedProxies", fmt.Sprint(n), "is more than 64", "write how many proxies a request passes before it comes here"))
	}
	return GatewayTopology{
		Said: true, TrustedProxies: in.GetNumTrustedProxies(), ProxyProtocol: in.GetProxyProtocol() != nil,
		ClientCertificates: map[meshconfig.ForwardClientCertDetails]ClientCertificates{
			meshconfig.ForwardClientCertDetails_SANITIZE: Sanitize, meshconfig.ForwardClientCertDetails_FORWARD_ONLY: ForwardOnly,
			meshconfig.ForwardClientCertDetails_APPEND_FORWARD: AppendForward, meshconfig.ForwardClientCertDetails_ALWAYS_FORWARD_ONLY: AlwaysForward,
		}[in.GetForwardClientCertDetails()],
	}, problems
}

// TopologyOf reads the gatewayTopology of a ProxyConfig, as YAML or JSON. What else it says is not looked at.
func TopologyOf(proxyConfig string) (GatewayTopology, error) {
	text, err := topologyIn(proxyConfig)
	if err != nil {
		return GatewayTopology{}, err
	}
	return ReadTopology(text)
}

// ReadTopology reads a gatewayTopology as JSON; none, and null, say nothing.
func ReadTopology(text []byte) (GatewayTopology, error) {
	_, t, err := parseTopology(text)
	return t, err
}

// OnlyTopology gives a ProxyConfig, in JSON, that says of gateways' topology what another one says, and nothing else; "" where that says nothing of it.
func OnlyTopology(proxyConfig string) (string, error) {
	said, err := topologyIn(proxyConfig)
	if err != nil {
		return "", err
	}
	in, _, err := parseTopology(said)
	if err != nil || in == nil {
		return "", err
	}
	text, err := protojson.Marshal(in)
	if err != nil {
		return "", err
	}
	out, err := json.Marshal(map[string]json.RawMessage{topologyField: text}) // which, other than protojson, writes the same in the same way each time
	return string(out), err
}

// BesideTopology are the other fields of a ProxyConfig, in order; none of one that cannot be read.
func BesideTopology(proxyConfig string) []string {
	all, _ := fieldsOf(proxyConfig)
	delete(all, topologyField)
	return slices.Sorted(maps.Keys(all))
}

// fieldsOf are those of a ProxyConfig, as JSON.
func fieldsOf(proxyConfig string) (map[string]json.RawMessage, error) {
	if strings.TrimSpace(proxyConfig) == "" {
		return nil, nil
	}
	text, err := yaml.YAMLToJSONStrict([]byte(proxyConfig))
	if err != nil {
		return nil, fmt.Errorf("is no YAML: %w", err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, errors.New("is no ProxyConfig: write fields, as in \"gatewayTopology: {numTrustedProxies: 1}\"")
	}
	return all, nil
}

func topologyIn(proxyConfig string) (json.RawMessage, error) {
	all, err := fieldsOf(proxyConfig)
	return all[topologyField], err
}

// parseTopology gives a gatewayTopology as Istio's message, nil for none, and what it says.
func parseTopology(text []byte) (in *meshconfig.Topology, t GatewayTopology, err error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, t, nil
	}
	in = &meshconfig.Topology{}
	if err := protojson.Unmarshal(text, in); err != nil {
		return nil, t, fmt.Errorf("%s: %s", topologyField, strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0"))
	}
	t, problems := readTopology(topologyField, in)
	if len(problems) > 0 {
		return nil, GatewayTopology{}, problems[0]
	}
	return in, t, nil
}
