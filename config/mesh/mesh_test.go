package mesh

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/sallyport/sallyport/config/fields"
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
    unregistered: resolve
    ech: keep
    local: [K8s.Example., corp]
    rate: 100
    oddRate: 0.5
    upstreams: [10.0.0.10, "10.0.0.11:5353", "[fd00::1]:53", "tls://192.0.2.1#DNS.Example", "10.0.0.10:53", tcp://fd00::2]
    forward: {corp.example: [10.0.0.53], b.example: ["tls://10.0.0.54:8853"]}
    allowPrivate: ["*.corp.example", Db.Example, 10.1.2.3/16, 10.9.0.1]
    allowPrivateFor: {shop: [Pay.Example, 10.2.2.3/16, 10.2.0.0/16], bank: []}
  certificateFolders: {gateway: /etc/gateway, sidecar: /etc/certs}
  audit: {retention: 720h, recordsPerSecond: 20, whenFull: deny, mesh: all}
  policy: {require: [reason, owner, ticket, expires<=90d], expected: true}
  fetch: onUse
  fetchGateways: onUse
  keepUnused: 1h
  exportedTables: 3
  traceProxies: false
  tcpPorts: [2181, 2003, 2181]
  ingress: {idleTimeout: 30s, keepSilent: true}
`

func TestParse(t *testing.T) {
	want := Default()
	want.OutboundAllowAny = false
	want.RootNamespace, want.TrustDomain = "mesh-root", "corp.example"
	want.ProtocolDetectionTimeout, want.ConnectTimeout = 100*time.Millisecond, 3*time.Second
	want.DefaultServiceExportTo, want.DefaultServiceEntryExportTo = []string{"."}, []string{"."}
	want.DefaultGateway = Gateway{"egress", "door"}
	want.Ingress.IdleTimeout, want.Ingress.KeepSilent = 30*time.Second, true
	want.DNS = DNS{
		Unregistered: Resolve, ECH: Keep, Local: []string{"corp", "k8s.example"}, Rate: 100, OddRate: 0.5,
		Upstreams:       []string{"10.0.0.10:53", "10.0.0.11:5353", "[fd00::1]:53", "tls://192.0.2.1:853#dns.example", "tcp://[fd00::2]:53"},
		Forward:         []Forward{{"b.example", []string{"tls://10.0.0.54:8853"}}, {"corp.example", []string{"10.0.0.53:53"}}},
		AllowPrivate:    []string{"*.corp.example", "10.1.0.0/16", "10.9.0.1", "db.example"},
		AllowPrivateFor: map[string][]string{"shop": {"10.2.0.0/16", "pay.example"}, "bank": nil},
	}
	want.TraceProxies = false
	want.ExportedTables, want.TCPPorts = 3, []uint32{2003, 2181}
	want.CertificateFolders = CertificateFolders{Gateway: "/etc/gateway", Sidecar: "/etc/certs"}
	want.Audit = Audit{Retention: 720 * time.Hour, Written: true, RecordsPerSecond: 20, WhenFull: Deny, Mesh: MeshAll}

	want.Fetch, want.FetchGateways, want.KeepUnused = OnUse, OnUse, time.Hour
	want.Policy = Policy{Require: Require{Reason: true, Owner: true, Ticket: true, Expires: true, Within: 90 * 24 * time.Hour}, Expected: true}

	closed, dynamic := Default(), Default()
	closed.OutboundAllowAny, dynamic.OutboundDynamicDNS = false, true
	direct := Default()
	direct.DefaultGateway = Gateway{}
	kept := Default()
	kept.Audit.Retention, kept.Audit.Written = time.Hour, true
	configMap := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio}\ndata:\n  meshNetworks: 'networks: {}'\n  mesh: |" +
		strings.ReplaceAll(full, "\n", "\n    ") + "\n"
	for name, c := range map[string]struct {
		in   string
		want Config
	}{
		"empty":             {"", Default()},
		"comment":           {"# nothing\n", Default()},
		"policy, no mode":   {"outboundTrafficPolicy: {}\n", closed},
		"policy, null":      {"outboundTrafficPolicy:\n", Default()},
		"policy, ALLOW_ANY": {"outboundTrafficPolicy: {mode: ALLOW_ANY}\n", Default()},
		"bare":              {full, want},
		"ConfigMap":         {configMap, want},
		"no gateway":        {"sallyport: {defaultGateway: direct}", direct},
		"retention alone":   {"sallyport: {audit: {retention: 1h}}", kept},
		"json":              {`{"sallyport": {"defaultGateway": "direct"}}`, direct},
		"empty sallyport":   {"sallyport:\n", Default()},
		"dynamic dns":       {"outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}", dynamic},
	} {
		got, err := Parse([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got, cmpopts.EquateEmpty(), protocmp.Transform(), cmpopts.IgnoreFields(Config{}, "Ignored")); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for in, want := range map[string]string{
		"outboundTrafficPolcy: {mode: ALLOW_ANY}":                   `outboundTrafficPolcy: unknown field; did you mean "outboundTrafficPolicy"?`,
		"outboundTrafficPolicy: {tls: {mode: SIMPLE}}":              `outboundTrafficPolicy.tls: TLS is not originated for hosts that nobody registered`,
		"outboundTrafficPolicy: {mode: REGISTRYONLY}":               `outboundTrafficPolicy.mode: "REGISTRYONLY": unknown value; did you mean "REGISTRY_ONLY"?`,
		"rootNamespace: Istio_System":                               `rootNamespace: "Istio_System": is no namespace's name`,
		"trustDomain: 'a b'":                                        `trustDomain: "a b": is no domain`,
		"protocolDetectionTimeout: fast":                            `protocolDetectionTimeout: "fast": is no duration`,
		"connectTimeout: -1s":                                       `connectTimeout: "-1s": is negative`,
		"connectTimeout: 0s":                                        `connectTimeout: "0s": is less than a millisecond`,
		"defaultServiceExportTo: ['*', a]":                          `defaultServiceExportTo[0]: "*"`,
		"defaultServiceExportTo: [A]":                               `defaultServiceExportTo[0]: "A": is no namespace's name`,
		"localityLbSetting: {distribute: [{from: a, to: {b: 50}}]}": `localityLbSetting.distribute[0].to: 50: the weights' sum is not 100`,
		"localityLbSetting: {distribute: [{from: a, to: {b: 100}}], failover: [{from: a, to: b}]}": `localityLbSetting: null: distribute and failover cannot be set together`,
		"localityLbSetting: {failover: [{from: a, to: a/z}]}":                                      `localityLbSetting.failover[0].to: "a/z": is no region alone`,
		"saliport: {}":                                                      `saliport: unknown field; did you mean "sallyport"?`,
		"sallyport: yes please":                                             `sallyport: "yes please": is not a mapping`,
		"sallyport: {gateway: a/b}":                                         `sallyport.gateway: unknown field; remove it; the fields here are defaultGateway, dns, audit, certificateFolders`,
		"sallyport: {defaultGateway: door}":                                 `sallyport.defaultGateway: "door": is no gateway`,
		"sallyport: {dns: {upstream: []}}":                                  `sallyport.dns.upstream: unknown field; did you mean "upstreams"?`,
		"sallyport: {dns: {upstreams: dns.example}}":                        `sallyport.dns.upstreams: "dns.example": is not a list`,
		"sallyport: {dns: {upstreams: [dns.example]}}":                      `sallyport.dns.upstreams[0]: "dns.example": is no resolver's address`,
		"sallyport: {dns: {allowPrivate: ['*']}}":                           `sallyport.dns.allowPrivate[0]: "*": is no host pattern`,
		"sallyport: {dns: {allowPrivate: [10.1.0.0/33]}}":                   `sallyport.dns.allowPrivate[0]: "10.1.0.0/33": is no host pattern`,
		"sallyport: {dns: {allowPrivateFor: [10.1.0.0/16]}}":                `sallyport.dns.allowPrivateFor: ["10.1.0.0/16"]: is no mapping`,
		"sallyport: {dns: {allowPrivateFor: {Shop: []}}}":                   `sallyport.dns.allowPrivateFor.Shop: "Shop": is no namespace's name`,
		"sallyport: {dns: {allowPrivateFor: {shop: ['*']}}}":                `sallyport.dns.allowPrivateFor.shop[0]: "*": is no host pattern`,
		"sallyport: {certificateFolders: {gateway: certs}}":                 `sallyport.certificateFolders.gateway: "certs": is no folder's absolute path`,
		"sallyport: {certificateFolders: {sidecar: /}}":                     `sallyport.certificateFolders.sidecar: "/": is no folder's absolute path`,
		"sallyport: {certificateFolders: {gateway: /etc/../var}}":           `is no folder's absolute path`,
		"sallyport: {dns: {ech: hide}}":                                     `sallyport.dns.ech: "hide": is neither`,
		"sallyport: {dns: {unregistered: drop}}":                            `sallyport.dns.unregistered: "drop": is neither`,
		"sallyport: {dns: {local: ['*.a']}}":                                `sallyport.dns.local[0]: "*.a": is no domain`,
		"sallyport: {dns: {rate: -1}}":                                      `sallyport.dns.rate: -1: is no rate`,
		"sallyport: {dns: {oddRate: many}}":                                 `sallyport.dns.oddRate: "many": is no rate`,
		"sallyport: {dns: {upstreams: ['10.0.0.1#x']}}":                     `sallyport.dns.upstreams[0]: "10.0.0.1#x": is no resolver's address`,
		"sallyport: {dns: {upstreams: ['https://10.0.0.1']}}":               `sallyport.dns.upstreams[0]: "https://10.0.0.1": is no resolver's address`,
		"sallyport: {dns: {forward: [a]}}":                                  `sallyport.dns.forward: ["a"]: is no mapping`,
		"sallyport: {dns: {forward: {corp: []}}}":                           `sallyport.dns.forward.corp: []: names no resolver`,
		"sallyport: {dns: {forward: {corp: [x]}}}":                          `sallyport.dns.forward.corp[0]: "x": is no resolver's address`,
		"sallyport: {dns: {forward: {corp: [10.0.0.1], CORP: [10.0.0.1]}}}": `is there twice`,
		"sallyport: {tcpPorts: 2181}":                                       `sallyport.tcpPorts: 2181: is no list of ports`,
		"sallyport: {tcpPorts: [2181, 443]}":                                `sallyport.tcpPorts[1]: 443: is read always`,
		"sallyport: {tcpPorts: [65536]}":                                    `sallyport.tcpPorts[0]: 65536: is no port number`,
		"sallyport: {tcpPorts: [0]}":                                        `sallyport.tcpPorts[0]: 0: is no port number`,
		"sallyport: {tcpPorts: [2181.5]}":                                   `sallyport.tcpPorts[0]: 2181.5: is no port number`,
		"sallyport: {tcpPorts: [zookeeper]}":                                `sallyport.tcpPorts[0]: "zookeeper": is no port number`,
		"sallyport: {audit: {mesh: some}}":                                  `sallyport.audit.mesh: "some": is none of what may be recorded of what comes to pods; write "off", "denied" or "all"; without it what policies deny is recorded`,
		"sallyport: {audit: {whenFull: block}}":                             `sallyport.audit.whenFull: "block": is neither; write "drop" or "deny"; without it records that a proxy's disk does not take are dropped, and counted`,
		"sallyport: {audit: {recordsPerSecond: -1}}":                        `sallyport.audit.recordsPerSecond: -1: is no rate; write a number of records a second, 0 for no limit`,
		"sallyport: {fetch: lazy}":                                          `sallyport.fetch: "lazy": is neither; write "all", so that sidecars hold every host that they see, or "onUse" for those that their pods use`,
		"sallyport: {fetchGateways: some}":                                  `sallyport.fetchGateways: "some": is neither; write "all"`,
		"sallyport: {keepUnused: 3s}":                                       `sallyport.keepUnused: "3s": is no duration of ten seconds or more; write how long`,
		"sallyport: {keepUnused: day}":                                      `sallyport.keepUnused: "day": is no duration`,
		"sallyport: {policy: {require: reason}}":                            `sallyport.policy.require: "reason": is not a list`,
		"sallyport: {policy: {require: [why]}}":                             `sallyport.policy.require[0]: "why": is nothing that can be required; write reason, owner, ticket, expires, or expires<=90d`,
		"sallyport: {policy: {require: [expires<=90]}}":                     `sallyport.policy.require[0]: "expires<=90": "90" is no length of time`,
		"sallyport: {policy: {require: [expires<=0d]}}":                     `"0d" is no length of time`,
		"sallyport: {policy: {require: [owner<=9d]}}":                       `"owner<=9d": is nothing that can be required`,
		"sallyport: {audit: {retention: 30d}}":                              `sallyport.audit.retention: "30d": is no duration`,
		"sallyport: {ingress: {idleTimeout: 0s}}":                           `sallyport.ingress.idleTimeout: "0s": is no duration from 1s to 24h`,
		"sallyport: {ingress: {idleTimeout: 48h}}":                          `sallyport.ingress.idleTimeout: "48h": is no duration`,
		"sallyport: {ingress: {idleTimeout: soon}}":                         `sallyport.ingress.idleTimeout: "soon": is no duration`,
		"sallyport: {exportedTables: -1}":                                   `sallyport.exportedTables: -1: is no number of namespaces; write a whole number, 0 for none`,
		"sallyport: {exportedTables: many}":                                 `sallyport.exportedTables: "many": is no number of namespaces`,
		"sallyport: {exportedTables: 1.5}":                                  `is no number of namespaces`,
		"a: 1\na: 2":                                                        `already set`,
		"trustDomain: a.b\n---\nrootNamespace: c":                           `line 3: begins another document, of which nothing would be read`,
		"---\n---\nrootNamespace: c":                                        `begins another document`,
		"trustDomain: a.b\n---\n\tx":                                        `not YAML`,
		"kind: ConfigMap\ndata: {mesh: \"a: 1\\n---\\nb: 1\"}":              `data.mesh: not YAML: line 3: begins another document`,
		"- a":                               "is no MeshConfig",
		"kind: ConfigMap\ndata: {other: x}": "data.mesh",
		"kind: ConfigMap\ndata: {mesh: 'a: b: c'}": "data.mesh: not YAML",
	} {
		if _, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", in, err, want)
		}
	}
}

func TestWhoRefusesNames(t *testing.T) {
	for _, c := range []struct {
		set            Unregistered
		allowAny, want bool
	}{{"", true, false}, {"", false, true}, {Refuse, true, true}, {Resolve, false, false}} {
		if got := (DNS{Unregistered: c.set}).Refuses(c.allowAny); got != c.want {
			t.Errorf("%q where unregistered traffic is allowed (%v): refuses %v", c.set, c.allowAny, got)
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

func TestBelow(t *testing.T) {
	for file, want := range map[string]bool{
		"/c/a.pem": true, "/c/ns/tls.crt": true, "/c": false, "/c/": false, "/cc/a": false, "/c/../a": false, "/c/./a": false, "/c//a": false,
		"/c/a/../../etc/x": false, "/c/..data/x": false, "/c/.hidden": false, "/c/a\n": false, "c/a": false, "": false, "/c/a/": false,
	} {
		if got := Below("/c", file); got != want {
			t.Errorf("Below(/c, %q) = %v", file, got)
		}
	}
	if Below("", "/a") {
		t.Error("without a folder, everything is below it")
	}
}

// TestIgnored: what is not applied is said, and where to ignore it would be less safe the settings are refused.
func TestIgnored(t *testing.T) {
	c, err := Parse([]byte("accessLogFile: /dev/stdout\nmeshMTLS: {minProtocolVersion: TLSV1_2}\ntrustDomainAliases: [old.local]"))
	if err != nil || len(c.Ignored) != 1 || c.Ignored[0].Field != "accessLogFile" || c.Ignored[0].Fix == "" {
		t.Errorf("%+v, %v", c.Ignored, err)
	}
	c, err = Parse([]byte("protocolDetectionTimeout: 0s"))
	if err != nil || len(c.Ignored) != 1 || c.Ignored[0].Field != "protocolDetectionTimeout" || c.ProtocolDetectionTimeout != 0 {
		t.Errorf("waiting for ever: %+v, %v", c.Ignored, err)
	}
	for text, words := range map[string]string{
		"meshMTLS: {minProtocolVersion: TLSV1_3}":                 "meshMTLS.minProtocolVersion",
		"discoverySelectors: [{matchLabels: {mesh: a}}]":          "discoverySelectors[0]",
		"outboundTrafficPolicy: {mode: ALLOW_ANY, tls: {sni: a}}": "outboundTrafficPolicy.tls",
		"trustDomainAliases: [old.local, a_b]":                    "trustDomainAliases[1]",
		"serviceEntryVisibility: {applyToSidecars: true}":         "serviceEntryVisibility.applyToSidecars",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTable: config/fields has the fields of our block, and no other. An unknown field's error lists those that are
// known.
func TestTable(t *testing.T) {
	known := func(at string) []string {
		text := "0: x"
		parts := strings.Split(at, ".")
		for i := len(parts) - 1; i >= 0; i-- {
			text = parts[i] + ": {" + text + "}"
		}
		_, err := Parse([]byte(text))
		if err == nil {
			return nil
		}
		_, list, _ := strings.Cut(err.Error(), "the fields here are ")
		return strings.Split(list, ", ")
	}
	var want []string
	for _, f := range fields.Sallyport {
		want = append(want, f.Path)
	}
	var got []string
	for _, field := range known("sallyport") {
		below := known("sallyport." + field)
		if len(below) == 1 && below[0] == "" { // a text, not a mapping
			got = append(got, field)
			continue
		}
		for _, name := range below {
			got = append(got, field+"."+name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("fields.Sallyport, and what is read: -table +read\n%s", d)
	}
}

// TestOwnNetworksAndInjection: our own words about the cluster's networks and what pods may change of their proxies.
func TestOwnNetworksAndInjection(t *testing.T) {
	cfg, err := Parse([]byte(`sallyport:
  clusterNetworks: [10.0.0.0/8, "fd00::/8"]
  injection:
    allow:
    - {changes: [excludeOutboundPorts, dnsCapture], namespaces: [shop]}
    - {images: ["mirror.example/*"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.ClusterNetworks) != 2 || !cfg.Injection.Permits("dnsCapture", "shop") || cfg.Injection.Permits("dnsCapture", "other") || cfg.Injection.Permits("containers", "shop") {
		t.Errorf("%+v", cfg)
	}
	if got := cfg.Injection.Images("other"); len(got) != 1 {
		t.Errorf("images: %v", got)
	}
	for text, want := range map[string]string{
		"sallyport: {clusterNetworks: [10.0.0.1/8]}":                             "sallyport.clusterNetworks[0]",
		"sallyport: {clusterNetworks: [0.0.0.0/0]}":                              "sallyport.clusterNetworks[0]",
		"sallyport: {clusterNetworks: [all]}":                                    "sallyport.clusterNetworks[0]",
		"sallyport: {injection: {allow: [{changes: [everything]}]}}":             "sallyport.injection.allow[0].changes[0]",
		"sallyport: {injection: {allow: [{namespaces: [shop]}]}}":                "sallyport.injection.allow[0]",
		"sallyport: {injection: {allow: [{changes: ['*'], namespaces: [A_B]}]}}": "sallyport.injection.allow[0].namespaces[0]",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
