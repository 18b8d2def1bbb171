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

	"github.com/sallyport/sallyport/config/fields"
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
	r.proxyConfigModes(config)
	r.unapplied(config)
	r.proxyMetadata(config.ProxyMetadata)
}

// proxyConfigModes refuses what the annotations about the same are refused for. An annotation counts instead.
func (r *reader) proxyConfigModes(config *meshconfig.ProxyConfig) {
	name := annotation.ProxyConfig.Name
	_, said := r.annotations[annotation.SidecarInterceptionMode.Name]
	switch mode := config.InterceptionMode; {
	case said:
	case mode == meshconfig.ProxyConfig_TPROXY:
		r.mistake(name, mode.String(), "interceptionMode "+noTPROXY, "write REDIRECT, or remove it")
	case mode == meshconfig.ProxyConfig_NONE:
		r.warn("annotation %q: interceptionMode: %q: is not applied: the traffic is caught as the injector's settings say; write the annotation %q", name, mode.String(), annotation.SidecarInterceptionMode.Name)
	}
	if port := config.StatusPort; port != 0 && port != StatusPort {
		r.mistake(name, fmt.Sprint(port), "statusPort: "+noStatusPort, fmt.Sprintf("write %d, or remove it", StatusPort))
	}
}

// ofPods are the fields of a ProxyConfig that are read of a pod, beside those that proxyConfig warns of in words of its own. What becomes of the others the table of the
// mesh's settings says.
var ofPods = []string{"concurrency", "holdApplicationUntilProxyStarts", "interceptionMode", "proxyMetadata", "statusPort", "terminationDrainDuration"}

// unapplied says what is not applied of a ProxyConfig.
func (r *reader) unapplied(config *meshconfig.ProxyConfig) {
	const at = "defaultConfig."
	name := annotation.ProxyConfig.Name
	for _, remark := range fields.MeshConfig.Remarks(&meshconfig.MeshConfig{DefaultConfig: config}, "") {
		field := strings.TrimPrefix(remark.Path, at)
		switch {
		case slices.Contains(ofPods, field):
		case remark.Fate == fields.Refused:
			r.mistake(name, remark.Value, field+" is not applied: "+remark.Why, remark.Fix)
		case remark.Value == "":
			r.warn("annotation %q: %s is not applied: %s; %s", name, field, remark.Why, remark.Fix)
		default:
			r.warn("annotation %q: %s: %q: is not applied: %s; %s", name, field, remark.Value, remark.Why, remark.Fix)
		}
	}
}

// proxyMetadata holds the proxy's further environment to names that there can be.
func (r *reader) proxyMetadata(metadata map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if len(validation.IsEnvVarName(key)) > 0 {
			r.mistake(annotation.ProxyConfig.Name, key, "proxyMetadata is no environment variable's name", "write one, as in ISTIO_META_NETWORK")
		}
		if runs(key) && !r.permits("containers") {
			r.annotationNotPermitted(annotation.ProxyConfig.Name, key+"="+metadata[key], "containers", "proxyMetadata says which program runs as the proxy")
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
