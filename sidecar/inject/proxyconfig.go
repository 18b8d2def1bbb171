package inject

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"istio.io/api/annotation"
	meshconfig "istio.io/api/mesh/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// proxyConfig reads Istio's ProxyConfig of the pod over the settings. The whole of it goes to the agent, too.
func (r *reader) proxyConfig(o *options) {
	name := annotation.ProxyConfig.Name
	text, ok := r.get(name)
	if !ok || strings.TrimSpace(text) == "" {
		return
	}
	const fix = "write Istio's ProxyConfig as YAML, as in 'holdApplicationUntilProxyStarts: true'"
	plain, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		r.mistake(name, text, err.Error(), fix)
		return
	}
	config := &meshconfig.ProxyConfig{}
	if err := protojson.Unmarshal(plain, config); err != nil {
		r.mistake(name, text, "is no ProxyConfig: "+strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0"), fix)
		return
	}
	o.proxyConfig, o.proxyText = config, string(plain)
	if config.HoldApplicationUntilProxyStarts != nil {
		o.HoldApplicationUntilProxyStarts = config.HoldApplicationUntilProxyStarts.Value
	}
	if config.Concurrency != nil {
		o.Concurrency = &config.Concurrency.Value
		if config.Concurrency.Value < 0 {
			r.mistake(name, fmt.Sprint(config.Concurrency.Value), "concurrency is negative", "write a number of threads, or 0 for the default")
		}
	}
	if d := config.TerminationDrainDuration; d != nil {
		o.TerminationDrainDuration = metav1.Duration{Duration: d.AsDuration()}
		if d.AsDuration() < 0 || d.AsDuration() > time.Hour {
			r.mistake(name, d.AsDuration().String(), "terminationDrainDuration is no time to wait", `write seconds, as in "30s"`)
		}
	}
	if address := config.DiscoveryAddress; address != "" {
		if p := addressProblem(address); p != "" {
			r.mistake(name, address, "discoveryAddress "+p, "write HOST:PORT")
		}
		o.DiscoveryAddress = address
	}
	if config.GatewayTopology != nil {
		r.warn("annotation %q: gatewayTopology has no effect: it is of gateways by which others come into the mesh, which are not injected", name)
	}
	if config.MeshId != "" {
		o.MeshID = config.MeshId
	}
	r.proxyMetadata(config.ProxyMetadata)
}

// proxyMetadata holds the proxy's further environment to names that there can be.
func (r *reader) proxyMetadata(metadata map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if len(validation.IsEnvVarName(key)) > 0 {
			r.mistake(annotation.ProxyConfig.Name, key, "proxyMetadata is no environment variable's name", "write one, as in ISTIO_META_NETWORK")
		}
	}
	if captured, ok := parseBool(metadata[dnsCapture]); metadata[dnsCapture] != "" && !(ok && captured) && !r.permits("dnsCapture") {
		r.annotationNotPermitted(annotation.ProxyConfig.Name, dnsCapture+"="+metadata[dnsCapture], "dnsCapture", "DNS queries would not be caught")
	} else if ok && !captured {
		r.warn("annotation %q: %s is false: DNS queries are not caught, so names are neither decided nor recorded", annotation.ProxyConfig.Name, dnsCapture)
	}
}

// dnsCapture tells the init step whether DNS goes to the agent.
const dnsCapture = "ISTIO_META_DNS_CAPTURE"
