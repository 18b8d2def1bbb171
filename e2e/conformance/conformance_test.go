package conformance

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apis/v1alpha2"
	"sigs.k8s.io/gateway-api/apis/v1alpha3"
	"sigs.k8s.io/gateway-api/apis/v1beta1"
	suites "sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/config"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// Variables of the environment: what is run (all, or the tests whose short names a regular expression matches whole; nothing without), and
// where the report goes.
const (
	runVariable    = "SALLYPORT_CONFORMANCE"
	reportVariable = "SALLYPORT_CONFORMANCE_REPORT"
)

// injecting labels the mesh's namespaces as whoever makes them is asked to.
var injecting = interceptor.Funcs{
	Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		return c.Create(ctx, labelled(o), opts...)
	},
	Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		return c.Update(ctx, labelled(o), opts...)
	},
}

func labelled(o client.Object) client.Object {
	if o.GetObjectKind().GroupVersionKind().Kind == "Namespace" && slices.Contains(ofMesh, o.GetName()) {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels["istio-injection"] = "enabled"
		o.SetLabels(labels)
	}
	return o
}

// others are the short names of the tests that are not run.
func others(t *testing.T, only string) (names []string) {
	t.Helper()
	if only == "all" {
		return nil
	}
	matches, err := regexp.Compile("^(?:" + only + ")$")
	if err != nil {
		t.Fatalf("%s: %v", runVariable, err)
	}
	for _, test := range tests.ConformanceTests {
		if !matches.MatchString(test.ShortName) {
			names = append(names, test.ShortName)
		}
	}
	if len(names) == len(tests.ConformanceTests) {
		t.Fatalf("%s: no test has a name like %q", runVariable, only)
	}
	return names
}

// addresses are one that a Gateway asks for.
func addresses(text string) []gatewayv1.GatewaySpecAddress {
	return []gatewayv1.GatewaySpecAddress{{Type: new(gatewayv1.IPAddressType), Value: text}}
}

// TestConformance runs the suite.
func TestConformance(t *testing.T) {
	only := os.Getenv(runVariable)
	if only == "" {
		t.Skip("it takes its time: `make conformance`")
	}
	s := set(t)
	log.SetLogger(logr.Discard())
	known := scheme.Scheme
	for _, add := range []func() error{
		func() error { return gatewayv1.Install(known) }, func() error { return v1beta1.Install(known) }, func() error { return v1alpha2.Install(known) },
		func() error { return v1alpha3.Install(known) }, func() error { return apiextensionsv1.AddToScheme(known) },
	} {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	access, err := client.NewWithWatch(s.Config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	timeouts := config.DefaultTimeoutConfig()
	timeouts.DefaultPollInterval = 200 * time.Millisecond
	if path := os.Getenv(reportVariable); path != "" {
		t.Cleanup(func() { // the suite writes it in a cleanup of its own, which comes first, being later
			if err := sortProfiles(path); err != nil {
				t.Errorf("the report: %v", err)
			}
		})
	}
	suites.RunConformanceWithOptions(t, suite.ConformanceOptions{
		Client: interceptor.NewClient(access, injecting), ClientOptions: client.Options{Scheme: known}, Clientset: kubernetes.NewForConfigOrDie(s.Config), RestConfig: s.Config,
		ConfigurableOptions: suite.ConfigurableOptions{
			GatewayClassName: "sallyport", SupportedFeatures: gatewayapi.Features(), ConformanceProfiles: profiles, TimeoutConfig: timeouts,
			CleanupBaseResources: os.Getenv("SALLYPORT_KEEP") == "", CleanupTestResources: true,
			UsableNetworkAddresses: addresses(usable), UnusableNetworkAddresses: addresses("198.51.100.7"),
			SkipTests: others(t, only), ReportOutputPath: os.Getenv(reportVariable),
			Implementation: confv1.Implementation{
				Organization: "sallyport", Project: "sallyport", URL: "https://github.com/sallyport/sallyport",
				Version: "main", Contact: []string{"https://github.com/sallyport/sallyport/issues"},
			},
		},
	})
}
