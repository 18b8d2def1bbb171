package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Settings are the injector's, for the whole mesh: the key "config" of the ConfigMap sallyport-injector. Annotations of a
// pod win over what they have a word for.
type Settings struct {
	Image            string            `json:"image"`            // of the proxy, for both containers
	ImagePullPolicy  corev1.PullPolicy `json:"imagePullPolicy"`  // "" for Kubernetes' default
	ImagePullSecrets []string          `json:"imagePullSecrets"` // added to each pod

	DiscoveryAddress string `json:"discoveryAddress"` // HOST:PORT of the controller
	TrustDomain      string `json:"trustDomain"`
	ClusterID        string `json:"clusterID"`
	MeshID           string `json:"meshID"`  // "" for the trust domain
	Network          string `json:"network"` // "" for none

	// Revision is what istio.io/rev must say.
	Revision string `json:"revision"`
	// DefaultRevision says that this injector also serves istio-injection=enabled and sidecar.istio.io/inject=true, which name no
	// revision. At most one control plane of a cluster may.
	DefaultRevision bool `json:"defaultRevision"`
	// EnableNamespacesByDefault injects in namespaces that have neither label.
	EnableNamespacesByDefault bool `json:"enableNamespacesByDefault"`
	// NeverNamespaces are left alone whatever labels say.
	NeverNamespaces []string `json:"neverNamespaces"`

	NativeSidecar                   Native `json:"nativeSidecar"`
	HoldApplicationUntilProxyStarts bool   `json:"holdApplicationUntilProxyStarts"`
	RewriteAppHTTPProbe             bool   `json:"rewriteAppHTTPProbe"` // Istio's name; TCP and gRPC probes too
	PrometheusScrape                bool   `json:"prometheusScrape"`    // annotates pods that say nothing about it

	// TerminationDrainDuration is how long connections may take to end, MinimumDrainDuration how long the proxy stays even
	// without any (not a native sidecar, which ends after the application).
	TerminationDrainDuration metav1.Duration `json:"terminationDrainDuration"`
	MinimumDrainDuration     metav1.Duration `json:"minimumDrainDuration"`

	Concurrency  *int32                      `json:"concurrency"` // Envoy's threads; none or 0 for the agent's default
	LogLevel     string                      `json:"logLevel"`    // Envoy's
	Resources    corev1.ResourceRequirements `json:"resources"`   // of both containers
	Redirect     Redirect                    `json:"redirect"`
	AllowPrivate []string                    `json:"allowPrivate"` // the agent's --allow-private, one each
	RunSize      resource.Quantity           `json:"runSize"`      // at most this much disk: sockets, audit records that wait
	StateSize    resource.Quantity           `json:"stateSize"`    // at most this much memory: keys, the last good configuration

	// NoNative says that the cluster is known to run no native sidecars. It is not in the file.
	NoNative bool `json:"-"`
	// NoMutualTLS says that the mesh is known to speak none, so that pods do not say that they take it. It is not in the file.
	NoMutualTLS bool `json:"-"`
	// Permissions are from the mesh's settings; nil permits everything.
	Permissions Permissions `json:"-"`
	// Closed says whether what nobody registered stays in, for a pod with these labels; nil: that is not known, and is not so.
	Closed func(namespace string, labels map[string]string) bool `json:"-"`
	// Secret makes what nobody can guess, for the paths of hooks; nil: by chance.
	Secret func() string `json:"-"`
}

// Redirect says which traffic is caught, in istio-init's words.
type Redirect struct {
	Mode                    string `json:"mode"` // REDIRECT, or NONE: something else catches the traffic, like a node agent
	IncludeOutboundIPRanges string `json:"includeOutboundIPRanges"`
	ExcludeOutboundIPRanges string `json:"excludeOutboundIPRanges"`
	IncludeOutboundPorts    string `json:"includeOutboundPorts"`
	ExcludeOutboundPorts    string `json:"excludeOutboundPorts"`
	IncludeInboundPorts     string `json:"includeInboundPorts"`
	ExcludeInboundPorts     string `json:"excludeInboundPorts"`
	ExcludeInterfaces       string `json:"excludeInterfaces"`
	VirtualInterfaces       string `json:"virtualInterfaces"`
	// BlockQUIC refuses UDP 443, which no proxy reads; none: where the mesh lets nothing unregistered out (REGISTRY_ONLY).
	BlockQUIC *bool `json:"blockQUIC"`
}

// blocksQUIC says whether UDP 443 is refused.
func (r Redirect) blocksQUIC() bool { return r.BlockQUIC != nil && *r.BlockQUIC }

// Default are the settings of an empty file. The image must be given in a cluster.
func Default() Settings {
	return Settings{
		Image:               "sallyport-proxy",
		DiscoveryAddress:    "sallyport.istio-system.svc:15012",
		TrustDomain:         "cluster.local",
		ClusterID:           "Kubernetes",
		Revision:            "default",
		DefaultRevision:     true,
		NeverNamespaces:     []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease},
		NativeSidecar:       NativeAuto,
		RewriteAppHTTPProbe: true,
		PrometheusScrape:    true,

		TerminationDrainDuration: metav1.Duration{Duration: 20 * time.Second},
		MinimumDrainDuration:     metav1.Duration{Duration: 5 * time.Second},

		LogLevel: "warning",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")},
		},
		Redirect:  Redirect{Mode: interceptRedirect, IncludeOutboundIPRanges: "*", IncludeInboundPorts: "*"},
		RunSize:   resource.MustParse("512Mi"),
		StateSize: resource.MustParse("128Mi"),
	}
}

// MaxSettings is the size of a settings file at most, in bytes.
const MaxSettings = 1 << 20

// ParseSettings reads YAML over the defaults: mappings are merged into them, lists replace them, null clears one. Errors name the field; an unknown one is
// an error.
func ParseSettings(data []byte) (Settings, error) {
	s := Default()
	if err := ReadSettings(data, &s); err != nil {
		return s, err
	}
	return s, s.check()
}

// ReadSettings reads YAML over what is there.
func ReadSettings(data []byte, into any) error {
	if len(data) > MaxSettings {
		return fmt.Errorf("the settings have %d bytes, at most %d are read", len(data), MaxSettings)
	}
	plain, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(plain))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// check says which setting would make every pod fail.
func (s Settings) check() error {
	var errs []error
	bad := func(field, value, fix string) { errs = append(errs, fmt.Errorf("%s: %q: %s", field, value, fix)) }
	if problem := imageProblem(s.Image); problem != "" {
		bad("image", s.Image, problem)
	}
	if !slices.Contains([]corev1.PullPolicy{"", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}, s.ImagePullPolicy) {
		bad("imagePullPolicy", string(s.ImagePullPolicy), "write Always, IfNotPresent or Never")
	}
	if _, _, err := net.SplitHostPort(s.DiscoveryAddress); err != nil {
		bad("discoveryAddress", s.DiscoveryAddress, "write HOST:PORT, as in sallyport.istio-system.svc:15012")
	}
	for _, required := range []struct{ field, value string }{{"trustDomain", s.TrustDomain}, {"clusterID", s.ClusterID}, {"revision", s.Revision}} {
		if required.value == "" {
			bad(required.field, "", "must not be empty")
		}
	}
	if !slices.Contains(logLevels, s.LogLevel) {
		bad("logLevel", s.LogLevel, logLevelFix)
	}
	if s.Concurrency != nil && *s.Concurrency < 0 {
		bad("concurrency", fmt.Sprint(*s.Concurrency), "must not be negative")
	}
	drain, least := s.TerminationDrainDuration.Duration, s.MinimumDrainDuration.Duration
	if drain < 0 || least < 0 {
		bad("terminationDrainDuration", drain.String(), "this and minimumDrainDuration must not be negative")
	}
	for _, m := range checkResources(s.Resources) {
		bad("resources."+m.Field, m.Value, m.Problem+"; "+m.Fix)
	}
	for _, size := range []struct {
		field string
		q     resource.Quantity
	}{{"runSize", s.RunSize}, {"stateSize", s.StateSize}} {
		if size.q.Sign() <= 0 {
			bad(size.field, size.q.String(), "write how much, as in 512Mi")
		}
	}
	r := reader{}
	r.redirection(s.Redirect)
	for _, m := range r.mistakes {
		bad(m.Field, m.Value, m.Problem+"; "+m.Fix)
	}
	return errors.Join(errs...)
}
