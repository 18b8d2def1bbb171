package appprobe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Variable is the environment variable that holds the probes as JSON: Istio's name and form.
const Variable = "ISTIO_KUBE_APP_PROBERS"

// Prefixes of the paths that are served.
const (
	HealthPrefix    = "/app-health/"
	LifecyclePrefix = "/app-lifecycle/"
)

// Probes are the original probes by the path that stands for each, as in "/app-health/web/readyz", or of a hook "/app-lifecycle/web/prestopz/SECRET".
type Probes map[string]Probe

// Probe is a container's probe or lifecycle hook in Kubernetes' form, with ports as numbers. One of the actions is set.
type Probe struct {
	HTTPGet        *HTTPGet   `json:"httpGet,omitempty"`
	TCPSocket      *TCPSocket `json:"tcpSocket,omitempty"`
	GRPC           *GRPC      `json:"grpc,omitempty"`
	TimeoutSeconds int32      `json:"timeoutSeconds,omitempty"` // 0 for 1; hooks at a secret path have the kubelet's
}

// HTTPGet succeeds on a status from 200 to 399.
type HTTPGet struct {
	Path    string   `json:"path,omitempty"`
	Port    uint16   `json:"port"`
	Host    string   `json:"host,omitempty"`   // must be empty: probes go to the pod
	Scheme  string   `json:"scheme,omitempty"` // HTTP or HTTPS; the certificate is not verified, as by a kubelet
	Headers []Header `json:"httpHeaders,omitempty"`
}

// Header is sent with an HTTPGet.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TCPSocket succeeds when the port accepts a connection.
type TCPSocket struct {
	Port uint16 `json:"port"`
}

// GRPC asks grpc.health.v1.Health; it succeeds on SERVING.
type GRPC struct {
	Port    uint16 `json:"port"`
	Service string `json:"service,omitempty"`
}

// maxProbes bounds what one pod may list.
const maxProbes = 256

// Parse reads Variable's value. "" means no probes. Errors name the path.
func Parse(text string) (Probes, error) {
	if text == "" {
		return nil, nil
	}
	var probes Probes
	in := json.NewDecoder(bytes.NewReader([]byte(text)))
	in.DisallowUnknownFields()
	if err := in.Decode(&probes); err != nil {
		return nil, fmt.Errorf("must be a JSON object of probes by path: %w", err)
	}
	if len(probes) > maxProbes {
		return nil, fmt.Errorf("%d probes, at most %d are served", len(probes), maxProbes)
	}
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(probes)) {
		if err := probes[path].check(path); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	return probes, errors.Join(errs...)
}

func (p Probe) check(path string) error {
	if !strings.HasPrefix(path, HealthPrefix) && !strings.HasPrefix(path, LifecyclePrefix) {
		return fmt.Errorf("the path must begin with %s or %s", HealthPrefix, LifecyclePrefix)
	}
	actions, port := 0, uint16(0)
	if p.HTTPGet != nil {
		actions, port = actions+1, p.HTTPGet.Port
		if p.HTTPGet.Host != "" {
			return fmt.Errorf("httpGet.host %q: probes go to the pod itself, leave it out", p.HTTPGet.Host)
		}
		if s := p.HTTPGet.Scheme; s != "" && s != "HTTP" && s != "HTTPS" {
			return fmt.Errorf("httpGet.scheme %q: write HTTP or HTTPS", s)
		}
	}
	if p.TCPSocket != nil {
		actions, port = actions+1, p.TCPSocket.Port
	}
	if p.GRPC != nil {
		actions, port = actions+1, p.GRPC.Port
	}
	switch {
	case actions != 1:
		return errors.New("write one of httpGet, tcpSocket and grpc")
	case port == 0:
		return errors.New("port: write a number from 1 to 65535")
	case p.TimeoutSeconds < 0:
		return fmt.Errorf("timeoutSeconds %d: must not be negative", p.TimeoutSeconds)
	}
	return nil
}
