package registry_test

import "testing"

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
