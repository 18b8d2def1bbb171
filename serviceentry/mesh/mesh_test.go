package mesh

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sallyport/sallyport/serviceentry/host"
)

const full = `
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
rootNamespace: mesh-root
trustDomain: corp.example
protocolDetectionTimeout: 100ms
connectTimeout: 3s
accessLogFile: /dev/stdout
enableTracing: true
defaultServiceExportTo: ["."]
sallyport:
  defaultGateway: egress/door
  dns:
    upstreams: [10.0.0.10, "10.0.0.11:5353", "[fd00::1]:53"]
    allowPrivate: ["*.corp.example", Db.Example]
  audit: {retention: 720h}
`

func TestParse(t *testing.T) {
	want := Default()
	want.OutboundAllowAny = false
	want.RootNamespace, want.TrustDomain = "mesh-root", "corp.example"
	want.ProtocolDetectionTimeout, want.ConnectTimeout = 100*time.Millisecond, 3*time.Second
	want.DefaultServiceExportTo, want.DefaultServiceEntryExportTo = []string{"."}, []string{"."}
	want.DefaultGateway = Gateway{"egress", "door"}
	want.DNS.Upstreams = []netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.10:53"), netip.MustParseAddrPort("10.0.0.11:5353"), netip.MustParseAddrPort("[fd00::1]:53"),
	}
	want.DNS.AllowPrivate = []host.Name{"*.corp.example", "db.example"}
	want.Audit.Retention = 720 * time.Hour

	direct := Default()
	direct.DefaultGateway = Gateway{}
	configMap := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio}\ndata:\n  meshNetworks: 'networks: {}'\n  mesh: |" +
		strings.ReplaceAll(full, "\n", "\n    ") + "\n"
	for name, c := range map[string]struct {
		in   string
		want Config
	}{
		"empty":              {"", Default()},
		"comment":            {"# nothing\n", Default()},
		"policy, no mode":    {"outboundTrafficPolicy: {}\n", Default()},
		"bare":               {full, want},
		"ConfigMap":          {configMap, want},
		"no gateway":         {"sallyport: {defaultGateway: direct}", direct},
		"json":               {`{"sallyport": {"defaultGateway": "direct"}}`, direct},
		"empty sallyport":    {"sallyport:\n", Default()},
		"dynamic dns is any": {"outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}", Default()},
	} {
		got, err := Parse([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for in, want := range map[string]string{
		"outboundTrafficPolcy: {mode: ALLOW_ANY}":      `outboundTrafficPolcy: unknown field; did you mean "outboundTrafficPolicy"?`,
		"outboundTrafficPolicy: {mode: REGISTRYONLY}":  `outboundTrafficPolicy.mode: "REGISTRYONLY": unknown value; did you mean "REGISTRY_ONLY"?`,
		"rootNamespace: Istio_System":                  `rootNamespace: "Istio_System": is no namespace's name`,
		"trustDomain: 'a b'":                           `trustDomain: "a b": is no domain`,
		"protocolDetectionTimeout: fast":               `protocolDetectionTimeout: "fast": is no duration`,
		"connectTimeout: -1s":                          `connectTimeout: "-1s": is negative`,
		"defaultServiceExportTo: ['*', a]":             `defaultServiceExportTo[0]: "*"`,
		"defaultServiceExportTo: [A]":                  `defaultServiceExportTo[0]: "A": is no namespace's name`,
		"saliport: {}":                                 `saliport: unknown field; did you mean "sallyport"?`,
		"sallyport: yes please":                        `sallyport: "yes please": is not a mapping`,
		"sallyport: {gateway: a/b}":                    `sallyport.gateway: unknown field; remove it; the fields here are defaultGateway, dns, audit`,
		"sallyport: {defaultGateway: door}":            `sallyport.defaultGateway: "door": is no gateway`,
		"sallyport: {dns: {upstream: []}}":             `sallyport.dns.upstream: unknown field; did you mean "upstreams"?`,
		"sallyport: {dns: {upstreams: dns.example}}":   `sallyport.dns.upstreams: "dns.example": is not a list`,
		"sallyport: {dns: {upstreams: [dns.example]}}": `sallyport.dns.upstreams[0]: "dns.example": is no resolver's address`,
		"sallyport: {dns: {allowPrivate: ['*']}}":      `sallyport.dns.allowPrivate[0]: "*": is no host pattern`,
		"sallyport: {audit: {retention: 30d}}":         `sallyport.audit.retention: "30d": is no duration`,
		"a: 1\na: 2":                                   `already set`,
		"- a":                                          "is no MeshConfig",
		"kind: ConfigMap\ndata: {other: x}":            "data.mesh",
		"kind: ConfigMap\ndata: {mesh: 'a: b: c'}":     "data.mesh: not YAML",
	} {
		if _, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", in, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(file, []byte("sallyport: {dns: {upstream: []}, gateway: 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	if err == nil || !strings.Contains(err.Error(), file+": ") || strings.Count(err.Error(), "unknown field") != 2 {
		t.Errorf("Load: %v", err)
	}
	if _, err := Load(file + ".none"); err == nil || !strings.Contains(err.Error(), "mesh.yaml.none") {
		t.Errorf("Load of no file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("sallyport: {dns: {upstreams: [1]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err == nil && (c.TrustDomain == "" || c.RootNamespace == "") {
			t.Fatalf("no error, but %+v", c)
		}
	})
}
