package chart

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden.yaml")

func TestLint(t *testing.T) {
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			if out, err := helm(t, "lint", "--strict", "--kube-version", kubeVersion, "--values", values, "."); err != nil {
				t.Errorf("%s\n%v", out, err)
			}
		})
	}
}

func TestGoldens(t *testing.T) {
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			got := template(t, "--values", values)
			golden := "testdata/" + name + ".golden.yaml"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-update rewrites it):\n%s", golden, diff)
			}
		})
	}
}

// Values that do not fit each other are refused with words.
func TestChecksRefuse(t *testing.T) {
	const inLake = "audit.lake.url=s3://logs,audit.lake.iceberg.enabled=true,audit.lake.iceberg.catalog=https://catalog.test"
	for set, words := range map[string]string{
		"egressGateway.drain.minSeconds=90":                                                          "egressGateway.drain: minSeconds 90 is more than maxSeconds 60",
		"egressGateway.autoscaling.maxReplicas=1":                                                    "egressGateway.autoscaling: minReplicas 2 is more than maxReplicas 1",
		"egressGateway.resources.requests.cpu=null":                                                  "egressGateway.autoscaling: without resources.requests.cpu",
		"networkPolicies.enabled=true,networkPolicies.namespaces={shop},egressGateway.enabled=false": "networkPolicies: without egressGateway.enabled",
		"eastWestGateway.enabled=true":                                                               "eastWestGateway.network: without it",
		"eastWestGateway.network=east":                                                               "eastWestGateway.network: it has no effect",
		"networkPolicies.namespaces={shop}":                                                          "networkPolicies.namespaces: they have no effect",
		`ingressGateway.podAnnotations.proxy\.istio\.io/config=hello`:                                "ingressGateway.podAnnotations: proxy.istio.io/config is no YAML of fields",
		inLake + ",audit.lake.keepReplaced=1h30m":                                                    "audit.lake.keepReplaced: 1h30m is less than audit.lake.iceberg.keepSnapshots, 24h",
		inLake + ",audit.lake.keepReplaced=23h59m59s":                                                "audit.lake.keepReplaced: 23h59m59s is less than",
	} {
		t.Run(set, func(t *testing.T) {
			_, err := helm(t, "template", "sallyport", ".", "--kube-version", kubeVersion, "--set", set)
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%v, want %q", err, words)
			}
		})
	}
	if _, err := helm(t, "template", "sallyport", ".", "--kube-version", kubeVersion, "--set", inLake+",audit.lake.keepReplaced=1440m"); err != nil {
		t.Errorf("as long as snapshots stay: %v", err)
	}
}

// Values that cannot be meant are refused, and the words say where.
func TestSchemaRefuses(t *testing.T) {
	for set, where := range map[string]string{
		"egressGatway.enabled=true":                           "egressGatway",
		"controller.replicas=0":                               "/controller/replicas",
		"controller.replica=3":                                "replica",
		"controller.extraArgs={log-level}":                    "/controller/extraArgs/0",
		"image.registry=registry.example/":                    "/image/registry",
		"image.pullPolicy=Sometimes":                          "/image/pullPolicy",
		"meshConfig.outboundTrafficPolicy.mode=DENY":          "/meshConfig/outboundTrafficPolicy/mode",
		"meshConfig.sallyport.defaultGateway=gateway":         "/meshConfig/sallyport/defaultGateway",
		"meshConfig.sallyport.policy.require={why}":           "/meshConfig/sallyport/policy/require/0",
		"audit.replicas=3":                                    "/audit/replicas",
		"audit.retention=forever":                             "/audit/retention",
		"audit.persistence.size=20 gigabytes":                 "/audit/persistence/size",
		"injector.failurePolicy=Open":                         "/injector/failurePolicy",
		"injector.settings.nativeSidecars=true":               "nativeSidecars",
		"injector.settings.redirect.mode=TPROXY":              "/injector/settings/redirect/mode",
		"networkPolicies.namespaces={shop,Shop}":              "/networkPolicies/namespaces/1",
		"networkPolicies.dns.cidrs={169.254.20.10}":           "/networkPolicies/dns/cidrs/0",
		"egressGateway.autoscaling.cpuPercent=101":            "/egressGateway/autoscaling/cpuPercent",
		"egressGateway.drain.maxSeconds=1m":                   "/egressGateway/drain/maxSeconds",
		"nodeGuard.resources.claims={x}":                      "claims",
		"monitoring.serviceMonitor.interval=30s":              "interval",
		"injector.settings.terminationDrainDuration=a minute": "/injector/settings/terminationDrainDuration",
	} {
		t.Run(set, func(t *testing.T) {
			_, err := helm(t, "template", "sallyport", ".", "--kube-version", kubeVersion, "--set", set)
			slashed := strings.ReplaceAll(where, "/", ".")
			if err == nil || (!strings.Contains(err.Error(), where) && !strings.Contains(err.Error(), strings.TrimPrefix(slashed, "."))) {
				t.Errorf("%v, want an error that names %s", err, where)
			}
		})
	}
}
