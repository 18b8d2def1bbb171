package registry_test

import (
	"strings"
	"testing"
)

const ownService = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.0.0.9, selector: {app: web}, ports: [{name: http, port: 80}]}\n"

// TestDifferent: that a Service has a shorter name at home is no difference that counts; what only a namespace sees is.
func TestDifferent(t *testing.T) {
	w := newWorld(t, ownService, entryYAML("shop/ext", "ext.com", "exportTo: ['*']"))
	if s := w.Snapshot(); s.View("shop") == "" || s.Different("shop") {
		t.Errorf("with a Service: view %q, different %t", s.View("shop"), s.Different("shop"))
	}
	w.apply(entryYAML("shop/own", "own.com", "exportTo: ['.']"))
	if s := w.Snapshot(); !s.Different("shop") {
		t.Error("with a host of its own it sees what everybody does")
	}
	w.remove(entryYAML("shop/own", "own.com", "exportTo: ['.']"))
	w.remove(ownService)
	if s := w.Snapshot(); s.View("shop") != "" || s.Different("shop") {
		t.Errorf("without both: view %q, different %t", s.View("shop"), s.Different("shop"))
	}
}

// TestDifferentRoutes: routes and rules of a namespace for a Service of its own lead all alike, also by the pods' own certificates; others are its own.
func TestDifferentRoutes(t *testing.T) {
	const rule = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: shop}\nspec: {host: web.HOST.svc.cluster.local, exportTo: ['TO']}\n"
	const routes = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: shop}\n" +
		"spec: {hosts: [web.HOST.svc.cluster.local], exportTo: ['TO'], http: [{MATCHroute: [{destination: {host: web.shop.svc.cluster.local}}]}]}\n"
	for _, c := range []struct {
		text, host, to, match string
		different             bool
	}{
		{rule, "shop", "*", "", false},
		{rule, "shop", ".", "", true},
		{rule, "bank", "*", "", true},
		{strings.Replace(rule, "exportTo: ['TO']", "trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}", 1), "shop", "*", "", false},
		{strings.Replace(rule, "exportTo: ['TO']", "trafficPolicy: {tls: {mode: MUTUAL, credentialName: c}}", 1), "shop", "*", "", true},
		{routes, "shop", "*", "", false},
		{routes, "shop", ".", "", true},
		{routes, "bank", "*", "", true},
		{routes, "shop", "*", "match: [{sourceLabels: {app: a}}], ", true},
		{routes, "shop", "*", "match: [{sourceNamespace: shop}], ", true},
	} {
		text := strings.NewReplacer("HOST", c.host, "TO", c.to, "MATCH", c.match).Replace(c.text)
		w := newWorld(t, ownService, text)
		if got := w.Snapshot().Different("shop"); got != c.different {
			t.Errorf("%s: different %t", text, got)
		}
		w.remove(text)
		if s := w.Snapshot(); s.Different("shop") {
			t.Errorf("%s: different without it", text)
		}
	}
}

// TestDifferentByShortName: where an entry's host is what a namespace calls a Service of its own, the addresses of the entry are not there.
func TestDifferentByShortName(t *testing.T) {
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e, namespace: istio-system}\n" +
		"spec: {hosts: [web], ADDRESSESports: [{name: tls, number: 443, protocol: TLS}], resolution: NONE}\n"
	ranges := strings.Replace(entry, "ADDRESSES", "addresses: [203.0.113.0/24], ", 1)
	for text, want := range map[string]bool{ranges: true, strings.Replace(entry, "ADDRESSES", "", 1): false, strings.Replace(ranges, "[web]", "[web2]", 1): false} {
		for _, order := range [][2]string{{ownService, text}, {text, ownService}} {
			w := newWorld(t, order[0])
			w.apply(order[1])
			if got := w.Snapshot().Different("shop"); got != want {
				t.Errorf("%s: different %t", text, got)
			}
			if w.Snapshot().Different("bank") {
				t.Error("so is a namespace without such a Service")
			}
			w.remove(ownService)
			if w.Snapshot().Different("shop") {
				t.Errorf("%s: different without the Service", text)
			}
		}
	}
}
