package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// farEnd says what becomes of one host, of shop, with one endpoint or one rule.
func farEnd(t *testing.T, settings, entry, rule string, p registry.Connector) string {
	t.Helper()
	text := `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: shop, annotations: {egress.sallyport.io/gateway: ` + map[bool]string{true: "direct", false: "istio-system/istio-egressgateway"}[p.Kind == registry.AtSidecar] + `}}
spec:
  hosts: [a.example]
  location: MESH_EXTERNAL
  ports: [{number: 8080, name: http, protocol: HTTP}]
  ` + entry
	if rule != "" {
		text += `
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: r, namespace: shop}
spec: {host: a.example, trafficPolicy: {tls: {` + rule + `}}}`
	}
	s := written(t, settings, text)
	svc := s.Services("a.example")[0]
	f := s.UpstreamRestrictions(svc, s.Rule(svc, "shop", ""), p)
	if c, closed := f.Closed[8080]; closed {
		return c.By.String() + ": " + c.Why
	}
	return fmt.Sprint(f.Refused)
}

// written is a snapshot of objects.
func written(t *testing.T, settings, text string) *registry.Snapshot {
	t.Helper()
	cfg, err := mesh.Parse([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	read := decode.File("a.yaml", []byte(text))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	var changes []config.Change
	for i := range read.Objects {
		changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
	}
	s, _ := registry.New(&cfg).Apply(changes)
	return s
}

// Every form of an address that is not for strangers is refused to a shared gateway, unless the settings allow it to the
// namespace; at a sidecar only the proxy's own host is.
func TestEndpointsAreHeldToWhatNamesMayResolveTo(t *testing.T) {
	for _, addr := range []string{
		"10.0.0.5", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192",
		"fd00:ec2::254", "fe80::1", "fc00::1", "::ffff:10.0.0.5", "64:ff9b::10.0.0.5", "64:ff9b:1::1", "2002:a00:5::1", "2001:0:4136:e378:8000:63bf:f5ff:fffa", "::10.0.0.5", "240.240.0.1",
	} {
		entry := fmt.Sprintf("resolution: STATIC\n  endpoints: [{address: %q}]", addr)
		if got := farEnd(t, "", entry, "", registry.Connector{Kind: registry.AtGateway}); !strings.Contains(got, "ServiceEntry shop/e: endpoints: ") || !strings.Contains(got, "is not a public address") {
			t.Errorf("%s at a gateway: %q", addr, got)
		}
		for _, settings := range []string{"{allowPrivate: [%q]}", "{allowPrivateFor: {shop: [%q]}}"} {
			if got := farEnd(t, "sallyport: {dns: "+fmt.Sprintf(settings, addr)+"}", entry, "", registry.Connector{Kind: registry.AtGateway}); got != "[]" {
				t.Errorf("%s at a gateway, with %s: %q", addr, settings, got)
			}
		}
		if got := farEnd(t, fmt.Sprintf("sallyport: {dns: {allowPrivateFor: {bank: [%q]}}}", addr), entry, "", registry.Connector{Kind: registry.AtGateway}); got == "[]" {
			t.Errorf("%s at a gateway: what is allowed to another namespace is let through", addr)
		}
		if got := farEnd(t, "", entry, "", registry.Connector{Kind: registry.AtSidecar, Namespace: "shop"}); got != "[]" {
			t.Errorf("%s at a sidecar: %q", addr, got)
		}
		byName := fmt.Sprintf("resolution: DNS\n  endpoints: [{address: %q}]", addr)
		if got := farEnd(t, "", byName, "", registry.Connector{Kind: registry.AtGateway}); got == "[]" {
			t.Errorf("%s at a gateway, resolution DNS: let through", addr)
		}
	}
	for _, addr := range []string{"127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "unix:///run/agent.sock"} {
		entry := fmt.Sprintf("resolution: STATIC\n  endpoints: [{address: %q}]", addr)
		for _, kind := range []registry.ConnectorKind{registry.AtSidecar, registry.AtGateway} {
			got := farEnd(t, `sallyport: {dns: {allowPrivate: [127.0.0.0/8, 0.0.0.0/8, "::/96", a.example]}}`, entry, "", registry.Connector{Kind: kind, Namespace: "shop"})
			if !strings.Contains(got, "own host") {
				t.Errorf("%s at %d: %q", addr, kind, got)
			}
		}
	}
}

// Names that resolvers take for whoever asks lead nowhere: as endpoints, and as hosts that are looked up.
func TestNamesOfTheProxysOwnHost(t *testing.T) {
	for _, name := range []string{"localhost", "LOCALHOST.", "x.localhost"} {
		for kind, want := range map[registry.ConnectorKind]string{registry.AtSidecar: "own host", registry.AtGateway: "own host", registry.AtForward: "[]"} {
			if got := farEnd(t, "", fmt.Sprintf("resolution: DNS\n  endpoints: [{address: %q}]", name), "", registry.Connector{Kind: kind, Namespace: "shop"}); !strings.Contains(got, want) {
				t.Errorf("%s at %d: %q", name, kind, got)
			}
		}
	}
	for host, closed := range map[string]bool{"localhost": true, "a.localhost": true, "*.localhost": true, "localhost.example": false} {
		for _, kind := range []registry.ConnectorKind{registry.AtSidecar, registry.AtGateway} {
			s := written(t, "", fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}\n"+
				"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: %s, ports: [{number: 8080, name: http, protocol: HTTP}]}", host, map[bool]string{true: "DYNAMIC_DNS", false: "DNS"}[host[0] == '*']))
			svc := s.Services(host)[0]
			if _, got := s.UpstreamRestrictions(svc, nil, registry.Connector{Kind: kind, Namespace: "shop"}).Closed[8080]; got != closed {
				t.Errorf("%s at %d: closed is %t", host, kind, got)
			}
		}
	}
}

// A name that may be inside for one namespace is not for the others: as a host, behind a wildcard, or as an endpoint.
func TestNamesThatAreInsideForOneNamespace(t *testing.T) {
	const settings = `sallyport: {dns: {allowPrivateFor: {bank: ["*.corp.example", 10.0.0.0/8], shop: ["pay.example"]}}}`
	gateway := registry.Connector{Kind: registry.AtGateway}
	for entry, want := range map[string]string{
		"resolution: DNS\n  endpoints: [{address: db.corp.example}]":  "endpoints: db.corp.example may have private addresses, for namespace bank only",
		"resolution: DNS\n  endpoints: [{address: DB.corp.example.}]": "for namespace bank only",
		"resolution: DNS\n  endpoints: [{address: pay.example}]":      "[]",
		"resolution: DNS\n  endpoints: [{address: corp.example}]":     "[]",
	} {
		if got := farEnd(t, settings, entry, "", gateway); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
	for pattern, closed := range map[string]bool{"a.example": true, "*.example": true, "*.a.example": false, "b.example": false} {
		got := farEnd(t, fmt.Sprintf("sallyport: {dns: {allowPrivateFor: {bank: [%q]}}}", pattern), "resolution: DNS", "", gateway)
		if strings.Contains(got, "for namespace bank only") != closed {
			t.Errorf("a.example beside bank's %s: %q", pattern, got)
		}
	}
}

func TestWhatTLSCannotBeSpoken(t *testing.T) {
	gateway, sidecar := registry.Connector{Kind: registry.AtGateway}, registry.Connector{Kind: registry.AtSidecar, Namespace: "shop"}
	stranger := registry.Connector{Kind: registry.AtSidecar, Namespace: "bank"}
	const folders = "sallyport: {certificateFolders: {gateway: /g, sidecar: /s}}"
	for _, c := range []struct {
		settings, rule string
		place          registry.Connector
		want           string // "" for nothing
	}{
		{"", "mode: SIMPLE", gateway, ""},
		{"", "mode: DISABLE", gateway, ""},
		{"", "mode: ISTIO_MUTUAL", gateway, "ISTIO_MUTUAL"},
		{"", "mode: ISTIO_MUTUAL", sidecar, "ISTIO_MUTUAL"},
		{"", "mode: SIMPLE, caCertificates: system", gateway, ""},
		{"", "mode: SIMPLE, caCertificates: /etc/ssl/cert.pem", gateway, "caCertificates names the file"},
		{"", "mode: SIMPLE, caCrl: /a", gateway, "caCrl names the file"},
		{"", "mode: MUTUAL, clientCertificate: /a, privateKey: /b", gateway, "clientCertificate names the file"},
		{"", "mode: MUTUAL, clientCertificate: /a, privateKey: /b", sidecar, "clientCertificate names the file"},
		{folders, "mode: MUTUAL, clientCertificate: /g/shop/a, privateKey: /g/shop/b", gateway, ""},
		{folders, "mode: MUTUAL, clientCertificate: /g/shop/a, privateKey: /g/bank/b", gateway, "privateKey names the file"},
		{folders, "mode: MUTUAL, clientCertificate: /g/a, privateKey: /g/b", gateway, "clientCertificate names the file"},
		{folders, "mode: MUTUAL, clientCertificate: /g/shop/../bank/a, privateKey: /g/shop/b", gateway, "clientCertificate names the file"},
		{folders, "mode: MUTUAL, clientCertificate: /g/shop//a, privateKey: /g/shop/b", gateway, "clientCertificate names the file"},
		{folders, "mode: MUTUAL, clientCertificate: /g/shopping/a, privateKey: /g/shop/b", gateway, "clientCertificate names the file"},
		{folders, "mode: MUTUAL, clientCertificate: /s/a, privateKey: /s/b", sidecar, ""},
		{folders, "mode: MUTUAL, clientCertificate: /s/a, privateKey: /s/b", stranger, "clientCertificate names the file"},
		{folders, "mode: MUTUAL, clientCertificate: /g/shop/a, privateKey: /g/shop/b", sidecar, "clientCertificate names the file"},
		{folders, "mode: MUTUAL, clientCertificate: /g/shop/a, privateKey: /g/shop/b, insecureSkipVerify: true, subjectAltNames: [a]", gateway, "subjectAltNames: cannot be checked"},
	} {
		got := farEnd(t, c.settings, "resolution: DNS", c.rule, c.place)
		if c.want == "" && got != "[]" || c.want != "" && !(strings.Contains(got, "DestinationRule shop/r: trafficPolicy.tls") && strings.Contains(got, c.want)) {
			t.Errorf("%s with %q at %+v: %q, want %q", c.rule, c.settings, c.place, got, c.want)
		}
	}
}

// A rule that asks for TLS and is refused closes its hosts: without it, they would be spoken to in plain text.
func TestARefusedRuleClosesItsHosts(t *testing.T) {
	read := decode.File("a.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: shop}
spec: {hosts: [a.example], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 8080, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: r, namespace: shop}
spec: {host: a.example, trafficPolicy: {tls: {mode: MUTUAL}}}
`))
	var changes []config.Change
	for i := range read.Objects {
		o := &read.Objects[i]
		if findings := admission.Validate(*o); admission.Refused(findings) {
			o = admission.ClosedStandIn(*o, findings)
		}
		changes = append(changes, config.Change{Key: o.Key, Object: o})
	}
	cfg := mesh.Default()
	s, _ := registry.New(&cfg).Apply(changes)
	svc := s.Services("a.example")[0]
	closed := s.UpstreamRestrictions(svc, s.ExitRule(svc), registry.Connector{Kind: registry.AtGateway, Namespace: "istio-system"}).Closed
	if len(closed) != 1 || !strings.Contains(closed[8080].Why, "MUTUAL needs a client certificate") || closed[8080].By.Name != "r" {
		t.Errorf("closed: %v", closed)
	}
}

// TestFilesAtNodes: at the proxy of a node, which others share, rules of a namespace name no files, whichever are named where it has its own.
func TestFilesAtNodes(t *testing.T) {
	const settings, entry = "sallyport: {certificateFolders: {sidecar: /s}}", "resolution: DNS"
	for _, rule := range []string{"mode: SIMPLE, caCertificates: /s/ca.pem", "mode: SIMPLE, caCrl: /s/crl.pem", "mode: MUTUAL, clientCertificate: /s/c.pem, privateKey: /s/k.pem"} {
		p := registry.Connector{Kind: registry.AtSidecar, Namespace: "shop"}
		if got := farEnd(t, settings, entry, rule, p); got != "[]" {
			t.Errorf("%s: at a sidecar: %s", rule, got)
		}
		p.Node = true
		if got := farEnd(t, settings, entry, rule, p); !strings.Contains(got, "DestinationRule shop/r") || !strings.Contains(got, "may not name it at this proxy") {
			t.Errorf("%s: at a node: %s", rule, got)
		}
	}
}
