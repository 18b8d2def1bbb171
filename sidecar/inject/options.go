package inject

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"istio.io/api/annotation"
	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Modes of catching traffic.
const (
	interceptRedirect = "REDIRECT"
	interceptNone     = "NONE"
)

// logLevels are Envoy's.
var logLevels = []string{"trace", "debug", "info", "warning", "warn", "error", "critical", "off"}

const logLevelFix = "write trace, debug, info, warning, error, critical or off"

// options are the settings as they hold for one pod.
type options struct {
	Settings
	intercept   bool
	uncaught    bool // nothing of the pod is caught, though the mesh's pods are
	native      bool
	initArgs    []string
	drain       time.Duration
	least       time.Duration
	proxyConfig *meshconfig.ProxyConfig // nil when the pod has none
	proxyText   string                  // the same as JSON
}

// optionsOf reads a pod's annotations over the settings.
func (r *reader) optionsOf(pod *corev1.Pod, s Settings) options {
	o := options{Settings: s}
	o.native = r.native(s)
	r.boolean(annotation.SidecarRewriteAppHTTPProbers.Name, &o.RewriteAppHTTPProbe)
	r.text(annotation.SidecarProxyImage.Name, &o.Image, imageProblem, "write an image, as in registry.example/sallyport-proxy:v1")
	r.text(annotation.SidecarLogLevel.Name, &o.LogLevel, func(level string) string {
		if !slices.Contains(logLevels, level) {
			return "is no log level"
		}
		return ""
	}, logLevelFix)
	r.text(annotation.SidecarDiscoveryAddress.Name, &o.DiscoveryAddress, addressProblem, "write HOST:PORT")
	if o.Image != s.Image && !r.permitsImage(o.Image) {
		r.annotationNotPermitted(annotation.SidecarProxyImage.Name, o.Image, "proxyImage", "the pod brings its own image of the proxy")
	}
	r.resources(&o.Resources)
	r.within(pod, &o.Resources)
	if o.Redirect.BlockQUIC == nil && s.Closed != nil {
		o.Redirect.BlockQUIC = ptr(s.Closed(r.namespace, pod.Labels))
	}
	r.redirectAnnotations(&o.Redirect)
	r.interception(&o.Redirect.Mode)
	r.proxyConfig(&o)
	if o.DiscoveryAddress != s.DiscoveryAddress && !r.permits("discoveryAddress") {
		r.annotationNotPermitted(annotation.SidecarDiscoveryAddress.Name, o.DiscoveryAddress, "discoveryAddress", "the pod would listen to another control plane")
	}
	o.intercept = o.Redirect.Mode != interceptNone
	if o.intercept {
		o.initArgs = r.redirection(o.Redirect)
	}
	o.uncaught = !o.intercept && s.Redirect.Mode != interceptNone
	r.startsFirst(pod, &o)
	o.drain, o.least = o.TerminationDrainDuration.Duration, o.MinimumDrainDuration.Duration
	if o.native {
		o.least = 0
	}
	o.least = min(o.least, o.drain)
	r.statusPort()
	r.mergesMetrics()
	r.useless(pod)
	return o
}

// interception refuses what would leave traffic uncaught without anybody having asked for it.
func (r *reader) interception(mode *string) {
	name := annotation.SidecarInterceptionMode.Name
	value, ok := r.get(name)
	if ok && value == interceptNone && *mode != interceptNone {
		r.warn("annotation %q: %q: nothing of the pod's traffic is caught, unless something else does; clients are not told to speak mutual TLS to it: where something else catches what comes in, give the pod the label %s: istio", name, value, label.SecurityTlsMode.Name)
	}
	switch {
	case !ok:
	case value == interceptNone && *mode != interceptNone && !r.permits("interceptionMode"):
		r.annotationNotPermitted(name, value, "interceptionMode", "nothing of the pod's traffic would be caught")
	case value == interceptRedirect || value == interceptNone:
		*mode = value
	case value == "TPROXY":
		r.mistake(name, value, noTPROXY, interceptionFix)
	default:
		r.mistake(name, value, "is no way to catch traffic", interceptionFix)
	}
}

const (
	noTPROXY        = "is not supported: the proxy has no capabilities"
	interceptionFix = "write REDIRECT, or NONE when something else catches the traffic"
	noStatusPort    = "the agent's port cannot be chosen"
)

// statusPort refuses another port than the one that probes are sent to.
func (r *reader) statusPort() {
	name := annotation.SidecarStatusPort.Name
	if value, ok := r.get(name); ok && value != fmt.Sprint(StatusPort) {
		r.mistake(name, value, noStatusPort, fmt.Sprintf("write %d, or remove the annotation", StatusPort))
	}
	if value, ok := r.get(annotation.InjectTemplates.Name); ok && strings.TrimSpace(value) != "sidecar" {
		r.mistake(annotation.InjectTemplates.Name, value, "there is one template, sidecar",
			"remove the annotation; gateways are installed with the chart")
	}
}

func addressProblem(value string) string {
	if _, port, err := net.SplitHostPort(value); err != nil || port == "" {
		return "is no address"
	}
	return ""
}
