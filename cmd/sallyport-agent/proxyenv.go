package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/sidecar/agent"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func parseEnvironment(environment []string) map[string]string {
	vars := make(map[string]string, len(environment))
	for _, line := range environment {
		if key, value, ok := strings.Cut(line, "="); ok {
			vars[key] = value
		}
	}
	return vars
}

// istioMetadata is the node metadata in ISTIO_META_* (text) and ISTIO_METAJSON_* (JSON). LABELS and those that flags
// stand for are taken out: labels go to labels.
func istioMetadata(vars map[string]string, labels map[string]string) (map[string]any, error) {
	metadata := map[string]any{}
	for _, key := range sortedKeys(vars) {
		if name, ok := strings.CutPrefix(key, "ISTIO_META_"); ok {
			metadata[name] = vars[key]
		}
		name, ok := strings.CutPrefix(key, "ISTIO_METAJSON_")
		if !ok {
			continue
		}
		if name == "LABELS" {
			if err := json.Unmarshal([]byte(vars[key]), &labels); err != nil {
				return nil, fmt.Errorf("%s: must be a JSON object of strings: %w", key, err)
			}
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(vars[key]), &value); err != nil {
			return nil, fmt.Errorf("%s: must be JSON: %w", key, err)
		}
		metadata[name] = value
	}
	for _, flagged := range []string{"CLUSTER_ID", "MESH_ID", "WORKLOAD_NAME", "DNS_CAPTURE"} {
		delete(metadata, flagged)
	}
	return metadata, nil
}

// applyProxyConfig takes what the agent itself needs of Istio's ProxyConfig, below flags; the whole goes into the
// node's metadata.
func applyProxyConfig(fs *pflag.FlagSet, c *agent.Config, text string) error {
	if text == "" {
		return nil
	}
	var known struct {
		DiscoveryAddress         string            `json:"discoveryAddress"`
		Concurrency              *int              `json:"concurrency"`
		TerminationDrainDuration string            `json:"terminationDrainDuration"`
		ProxyMetadata            map[string]string `json:"proxyMetadata"`
	}
	if err := yaml.Unmarshal([]byte(text), &known); err != nil {
		return err
	}
	if err := yaml.Unmarshal([]byte(text), &c.Proxy.ProxyConfig); err != nil {
		return err
	}
	if known.DiscoveryAddress != "" && !fs.Changed("discovery-addr") {
		c.Discovery = known.DiscoveryAddress
	}
	if known.Concurrency != nil && !fs.Changed("concurrency") {
		c.Concurrency = *known.Concurrency
	}
	if known.TerminationDrainDuration != "" && !fs.Changed("drain-time") {
		drain, err := time.ParseDuration(known.TerminationDrainDuration)
		if err != nil {
			return fmt.Errorf("terminationDrainDuration: %w", err)
		}
		c.DrainTime = drain
	}
	return nil
}

// parseLabels reads KEY="VALUE" lines.
func parseLabels(content string) (map[string]string, error) {
	labels := map[string]string{}
	for line := range strings.Lines(content) {
		key, quoted, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("labels file: %s=%s: the value must be quoted", key, quoted)
		}
		labels[key] = value
	}
	return labels, nil
}
