package mesh

import (
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
)

// TestExports: who may export what, by the setting's forms.
func TestExports(t *testing.T) {
	for _, tt := range []struct {
		settings, namespace, host string
		leads, want               bool
	}{
		{"", "team", "a.example", false, true},
		{"", "team", "a.example", true, false},
		{"sallyport: {exports: default}", "team", "a.example", true, false},
		{"sallyport: {exports: istio}", "team", "a.example", true, true},
		{"sallyport: {exports: []}", "team", "a.example", false, false},
		{`sallyport: {exports: [{namespaces: [team], hosts: ["*.example"]}]}`, "team", "a.example", true, true},
		{`sallyport: {exports: [{namespaces: [team], hosts: ["*.example"]}]}`, "team", "*.a.example", false, true},
		{`sallyport: {exports: [{namespaces: [team], hosts: ["*.example"]}]}`, "team", "example", false, false},
		{`sallyport: {exports: [{namespaces: [team], hosts: ["*.example"]}]}`, "other", "a.example", false, false},
		{`sallyport: {exports: [{namespaces: ["*"], hosts: ["*"], resolvedOnly: true}]}`, "other", "a.example", true, false},
	} {
		c, err := Parse([]byte(tt.settings))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Exports.Allows(tt.namespace, host.Name(tt.host), tt.leads); got != tt.want {
			t.Errorf("%s: %s may export %s (which it leads itself: %v): %v", tt.settings, tt.namespace, tt.host, tt.leads, got)
		}
	}
	for settings, want := range map[string]string{
		"sallyport: {exports: all}":                                           `"default", "istio", or a list`,
		"sallyport: {exports: [{hosts: [a.example]}]}":                        "sallyport.exports[0].namespaces",
		"sallyport: {exports: [{namespaces: [a]}]}":                           "sallyport.exports[0].hosts",
		"sallyport: {exports: [{namespaces: [A_b], hosts: ['*']}]}":           `"A_b"`,
		"sallyport: {exports: [{namespaces: [a], hosts: ['*a']}]}":            `"*a"`,
		"sallyport: {exports: [{namespaces: [a], hosts: [b], addresses: 1}]}": "addresses",
	} {
		if _, err := Parse([]byte(settings)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want something about %s", settings, err, want)
		}
	}
}

// TestWithheld: which entries' exports count by default.
func TestWithheld(t *testing.T) {
	c := Default()
	dns := &networking.ServiceEntry{Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS}
	with := func(change func(*networking.ServiceEntry)) *networking.ServiceEntry {
		e := &networking.ServiceEntry{Location: dns.Location, Resolution: dns.Resolution}
		change(e)
		return e
	}
	for name, tt := range map[string]struct {
		namespace, host string
		spec            *networking.ServiceEntry
		gateway         Gateway
		field           string
	}{
		"found by its name":       {"team", "a.example", dns, c.DefaultGateway, ""},
		"straight from the pod":   {"team", "a.example", dns, Gateway{}, ""},
		"a gateway of its own":    {"team", "a.example", dns, Gateway{"team", "gw"}, `metadata.annotations["egress.sallyport.io/gateway"]`},
		"endpoints":               {"team", "a.example", with(func(e *networking.ServiceEntry) { e.Endpoints = []*networking.WorkloadEntry{{Address: "b.example"}} }), c.DefaultGateway, "spec.endpoints"},
		"addresses":               {"team", "a.example", with(func(e *networking.ServiceEntry) { e.Addresses = []string{"10.0.0.1"} }), c.DefaultGateway, "spec.addresses"},
		"static":                  {"team", "a.example", with(func(e *networking.ServiceEntry) { e.Resolution = networking.ServiceEntry_STATIC }), c.DefaultGateway, "spec.resolution"},
		"workloads":               {"team", "a.example", with(func(e *networking.ServiceEntry) { e.WorkloadSelector = &networking.WorkloadSelector{} }), c.DefaultGateway, "spec.workloadSelector"},
		"the root namespace's":    {"istio-system", "a.example", with(func(e *networking.ServiceEntry) { e.Addresses = []string{"10.0.0.1"} }), c.DefaultGateway, ""},
		"one label":               {"team", "web", dns, c.DefaultGateway, "spec.hosts"},
		"a Service's name":        {"team", "web.shop.svc.cluster.local", dns, c.DefaultGateway, "spec.hosts"},
		"its own Service's name":  {"team", "vm.team.svc.cluster.local", with(func(e *networking.ServiceEntry) { e.Addresses = []string{"10.0.0.1"} }), c.DefaultGateway, ""},
		"pods' names":             {"team", "*.db.shop.svc.cluster.local", dns, c.DefaultGateway, "spec.hosts"},
		"all of the cluster":      {"team", "*.local", dns, c.DefaultGateway, "spec.hosts"},
		"the short form":          {"team", "web.shop.svc", dns, c.DefaultGateway, "spec.hosts"},
		"not quite the cluster's": {"team", "notcluster.local", dns, c.DefaultGateway, ""},
	} {
		if field, why := c.Withheld(tt.namespace, tt.spec, host.Name(tt.host), tt.gateway); field != tt.field || (why == "") != (field == "") {
			t.Errorf("%s: %q, %q; want %q", name, field, why, tt.field)
		}
	}
}
