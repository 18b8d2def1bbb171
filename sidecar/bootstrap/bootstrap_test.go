package bootstrap

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/xds/ambient"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// One case is one file: the options as YAML, the bootstrap that they give.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var options Options
			if err := yaml.UnmarshalStrict(archive.Files[0].Data, &options); err != nil {
				t.Fatal(err)
			}
			got, err := JSON(options)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "envoy.json", Data: got})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(archive.Files[1].Data), string(got)); diff != "" {
				t.Errorf("run with -update if this is meant:\n%s", diff)
			}
			validate(t, got)
		})
	}
}

func validate(t *testing.T, bootstrap []byte) {
	t.Helper()
	envoy := envoyBinary(t)
	dir := t.TempDir() // Envoy wants the folder of what it watches
	file := filepath.Join(dir, "envoy.json")
	bootstrap = bytes.ReplaceAll(bootstrap, []byte("/run/sallyport/refusing"), []byte(filepath.Join(dir, "refusing")))
	if err := os.WriteFile(file, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(envoy, "--mode", "validate", "-c", file, "--log-level", "warning").CombinedOutput()
	if err != nil || strings.Contains(string(out), "eprecated") {
		t.Errorf("envoy --mode validate: %v\n%s", err, out)
	}
}

// envoyBinary finds the pinned Envoy, where `make envoy` leaves it.
func envoyBinary(t *testing.T) string {
	t.Helper()
	cache, _ := os.UserCacheDir()
	for _, path := range []string{os.Getenv("ENVOY"), "../../bin/envoy", filepath.Join(cache, "sallyport/envoy-1.40.0/envoy")} {
		if _, err := os.Stat(path); path != "" && err == nil {
			return path
		}
	}
	t.Skip("no Envoy: run make envoy")
	return ""
}

func TestRefused(t *testing.T) {
	good := Options{
		Role: Sidecar, Name: "a", Namespace: "ns", ServiceAccount: "sa", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Socket: "agent.sock", Resolver: netip.MustParseAddrPort("127.0.0.1:15054"), AdminPort: 15000, StatsPort: 15090,
	}
	if _, err := JSON(good); err != nil {
		t.Fatal(err)
	}
	for want, breakIt := range map[string]func(*Options){
		`role "other"`:     func(o *Options) { o.Role = "other" },
		"name: must":       func(o *Options) { o.Name = "" },
		"namespace":        func(o *Options) { o.Namespace = "" },
		"service account":  func(o *Options) { o.ServiceAccount = "" },
		"socket":           func(o *Options) { o.Socket = "" },
		"ip: the proxy":    func(o *Options) { o.IPs = nil },
		"resolver":         func(o *Options) { o.Resolver = netip.AddrPort{} },
		"must be two port": func(o *Options) { o.StatsPort = o.AdminPort },
		"metadata of a.ns": func(o *Options) { o.Metadata = map[string]any{"X": func() {}} },
	} {
		options := good
		breakIt(&options)
		if _, err := JSON(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestStatisticsMayBeLocal: the page of statistics, which names the hosts that are used, is for the network, or for this machine alone.
func TestStatisticsMayBeLocal(t *testing.T) {
	o := Options{Role: Router, Name: "a", IPs: []netip.Addr{netip.MustParseAddr("2001:db8::1")}, StatsPort: 15090}
	at := func() string {
		return statsListener(o)["address"].(object)["socket_address"].(object)["address"].(string)
	}
	if got := at(); got != "::" {
		t.Errorf("to the network: %s", got)
	}
	if o.StatsLocal = true; at() != "127.0.0.1" {
		t.Errorf("to this machine: %s", at())
	}
}

// TestNodesSayTemplates: the agent of a node says that it opens templates of namespaces, and no other one does.
func TestNodesSayTemplates(t *testing.T) {
	for _, role := range []string{Sidecar, Router, Waypoint, Ztunnel} {
		if _, says := NewNode(Options{Role: role}).Metadata[ambient.OwnMetadata]; says != (role == Ztunnel) {
			t.Errorf("%s: says so: %t", role, says)
		}
		for _, has := range []bool{false, true} {
			if _, says := NewNode(Options{Role: role, IPv6: has}).Metadata[ambient.IPv6Metadata]; says != (has && role == Ztunnel) {
				t.Errorf("%s, with IPv6 %t: says so: %t", role, has, says)
			}
		}
	}
}
