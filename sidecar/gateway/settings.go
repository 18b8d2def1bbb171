package gateway

import (
	"errors"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/sidecar/inject"
)

// Settings are those of all gateways that are made for Gateways: the key "gateways" of the ConfigMap sallyport-injector.
type Settings struct {
	Image            string            `json:"image"`
	ImagePullPolicy  corev1.PullPolicy `json:"imagePullPolicy"` // "" for Kubernetes' default
	ImagePullSecrets []string          `json:"imagePullSecrets"`

	DiscoveryAddress string `json:"discoveryAddress"` // HOST:PORT of the controller
	TrustDomain      string `json:"trustDomain"`
	ClusterID        string `json:"clusterID"`

	// ServiceType is that of Services whose Gateway does not say another by the annotation networking.istio.io/service-type.
	ServiceType corev1.ServiceType `json:"serviceType"`
	// Replicas is how many pods a gateway has; none: it is not said, so that an autoscaler may.
	Replicas       *int32                      `json:"replicas"`
	Concurrency    int32                       `json:"concurrency"`    // Envoy's threads; 0 for as many as the CPU limit allows
	MaxConnections int64                       `json:"maxConnections"` // a pod
	LogLevel       string                      `json:"logLevel"`       // Envoy's
	Resources      corev1.ResourceRequirements `json:"resources"`
	RunSize        resource.Quantity           `json:"runSize"`   // at most this much disk: sockets, audit records that wait
	StateSize      resource.Quantity           `json:"stateSize"` // at most this much memory: keys, the last good configuration
	Drain          Drain                       `json:"drain"`

	// ProxyConfig is Istio's that a Gateway gives its pods, in JSON; "" for none. It is not of the file.
	ProxyConfig string `json:"-"`
}

// Drain is what a pod does when it ends: it goes on for Delay, then takes nothing new and waits for what is open, at least Min
// and at most Max.
type Drain struct {
	Delay metav1.Duration `json:"delay"`
	Min   metav1.Duration `json:"min"`
	Max   metav1.Duration `json:"max"`
}

// Default are the settings of an empty file.
func Default() Settings {
	seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	return Settings{
		Image:            "sallyport-proxy",
		DiscoveryAddress: "sallyport.istio-system.svc:15012",
		TrustDomain:      "cluster.local",
		ClusterID:        "Kubernetes",
		ServiceType:      corev1.ServiceTypeLoadBalancer,
		MaxConnections:   100000,
		LogLevel:         "warning",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")},
		},
		RunSize:   resource.MustParse("1Gi"),
		StateSize: resource.MustParse("128Mi"),
		Drain:     Drain{Delay: seconds(5), Min: seconds(5), Max: seconds(60)},
	}
}

// ParseSettings reads YAML over the defaults. Errors name the field; an unknown one is an error.
func ParseSettings(data []byte) (Settings, error) {
	s := Default()
	if err := inject.ReadSettings(data, &s); err != nil {
		return s, err
	}
	return s, s.check()
}

// check says which setting would make every gateway fail.
func (s Settings) check() error {
	var errs []error
	bad := func(field, value, fix string) { errs = append(errs, fmt.Errorf("%s: %q: %s", field, value, fix)) }
	for _, required := range []struct{ field, value string }{{"image", s.Image}, {"trustDomain", s.TrustDomain}, {"clusterID", s.ClusterID}} {
		if required.value == "" {
			bad(required.field, "", "must not be empty")
		}
	}
	if _, _, err := net.SplitHostPort(s.DiscoveryAddress); err != nil {
		bad("discoveryAddress", s.DiscoveryAddress, "write HOST:PORT, as in sallyport.istio-system.svc:15012")
	}
	if !serviceTypes[s.ServiceType] {
		bad("serviceType", string(s.ServiceType), "write LoadBalancer, NodePort or ClusterIP")
	}
	if s.MaxConnections <= 0 {
		bad("maxConnections", fmt.Sprint(s.MaxConnections), "write how many, as in 100000")
	}
	if s.Replicas != nil && *s.Replicas < 0 {
		bad("replicas", fmt.Sprint(*s.Replicas), "must not be negative")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"drain.delay", s.Drain.Delay.Duration}, {"drain.min", s.Drain.Min.Duration}, {"drain.max", s.Drain.Max.Duration}} {
		if d.value < 0 {
			bad(d.field, d.value.String(), "must not be negative")
		}
	}
	return errors.Join(errs...)
}

// serviceTypes are those that a gateway's Service can have.
var serviceTypes = map[corev1.ServiceType]bool{
	corev1.ServiceTypeLoadBalancer: true, corev1.ServiceTypeNodePort: true, corev1.ServiceTypeClusterIP: true,
}
