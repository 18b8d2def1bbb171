package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/sidecar/agent"
)

func parseProxy(t *testing.T, role string, environment []string, args ...string) (agent.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("proxy", pflag.ContinueOnError)
	flags := newProxyFlags()
	flags.bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags.config(fs, role, environment)
}

func TestProxyFromIstiosEnvironment(t *testing.T) {
	labels := filepath.Join(t.TempDir(), "labels")
	if err := os.WriteFile(labels, []byte("app=\"sleep\"\nversion=\"v1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parseProxy(t, "sidecar", []string{
		"POD_NAME=sleep-1", "POD_NAMESPACE=team-a", "INSTANCE_IP=10.0.0.1", "SERVICE_ACCOUNT=sleep", "TRUST_DOMAIN=example.org",
		"CA_ADDR=ca.example:15012", "ISTIO_META_CLUSTER_ID=east", "ISTIO_META_NETWORK=net1", "ISTIO_METAJSON_ANNOTATIONS={\"a\":\"b\"}",
		"ISTIO_META_WORKLOAD_NAME=sleep", "ISTIO_METAJSON_LABELS={\"version\":\"v2\",\"from\":\"env\"}",
		"PROXY_CONFIG=discoveryAddress: control.example:15012\nconcurrency: 3\nterminationDrainDuration: 7s\n",
		"SALLYPORT_AUDIT_SPOOL_BYTES=1048576",
	}, "--labels-file", labels, "--label", "from=flag")
	if err != nil {
		t.Fatal(err)
	}
	p := c.Proxy
	got := []any{p.Name, p.Namespace, p.ServiceAccount, p.IPs[0].String(), p.TrustDomain, p.ClusterID, p.Workload, p.Labels, p.Metadata}
	want := []any{"sleep-1", "team-a", "sleep", "10.0.0.1", "example.org", "east", "sleep",
		map[string]string{"app": "sleep", "version": "v2", "from": "flag"},
		map[string]any{"NETWORK": "net1", "ANNOTATIONS": map[string]any{"a": "b"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c.Concurrency != 3 || c.DrainTime != 7*time.Second || p.ProxyConfig["discoveryAddress"] != "control.example:15012" {
		t.Errorf("%d threads, %s, %v", c.Concurrency, c.DrainTime, p.ProxyConfig)
	}
	if c.SpoolBytes != 1<<20 {
		t.Errorf("%d bytes of spool", c.SpoolBytes)
	}
	if c.Discovery != "ca.example:15012" {
		t.Errorf("an address that is given must win over PROXY_CONFIG, got %s", c.Discovery)
	}
}

func TestProxyFlagsWin(t *testing.T) {
	c, err := parseProxy(t, "router", []string{"POD_NAME=env", "PROXY_CONFIG=concurrency: 3"},
		"--name", "flag", "--namespace", "ns", "--ip", "10.0.0.1,fd00::1", "--discovery-addr", "c:15012", "--concurrency", "5")
	if err != nil {
		t.Fatal(err)
	}
	if c.Proxy.Name != "flag" || len(c.Proxy.IPs) != 2 || c.Concurrency != 5 {
		t.Errorf("%+v", c)
	}
}

func TestProxyMistakes(t *testing.T) {
	good := []string{"--name", "a", "--namespace", "ns", "--ip", "10.0.0.1", "--discovery-addr", "c:15012"}
	for want, test := range map[string]struct {
		role        string
		environment []string
		args        []string
	}{
		`"ztunnel" is no kind of proxy`: {role: "ztunnel", args: good},
		"--name must be given":          {args: []string{"--ip", "10.0.0.1"}, environment: []string{"DISCOVERY_ADDRESS=c:1"}},
		`--ip "localhost"`:              {args: append(good[:4:4], "--ip", "localhost", "--discovery-addr", "c:1")},
		`--label "app"`:                 {args: append(good, "--label", "app")},
		`--metadata "=x"`:               {args: append(good, "--metadata", "=x")},
		"--min-drain-time 1m":           {args: append(good, "--min-drain-time", "1m")},
		`CONCURRENCY="many"`:            {args: good, environment: []string{"CONCURRENCY=many"}},
		"PROXY_CONFIG":                  {args: good, environment: []string{"PROXY_CONFIG=concurrency: [1"}},
		"ISTIO_METAJSON_X":              {args: good, environment: []string{"ISTIO_METAJSON_X={"}},
		"ISTIO_KUBE_APP_PROBERS: /x":    {args: good, environment: []string{`ISTIO_KUBE_APP_PROBERS={"/x":{"tcpSocket":{"port":1}}}`}},
		"ISTIO_METAJSON_LABELS":         {args: good, environment: []string{"ISTIO_METAJSON_LABELS=[1]"}},
	} {
		if test.role == "" {
			test.role = "sidecar"
		}
		if _, err := parseProxy(t, test.role, test.environment, test.args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestExitCodesOfWrongCalls(t *testing.T) {
	for _, args := range [][]string{{"nonsense"}, {"proxy"}, {"proxy", "sidecar"}, {"proxy", "--nonsense"}, {"proxy", "ztunnel"}} {
		root := rootCommand()
		root.SetArgs(args)
		if code := exitCode(root.Execute()); code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
