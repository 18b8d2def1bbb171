package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// certifiedObjects are what the owner of a host at an ingress gateway writes, but for its Secret.
func certifiedObjects(host, secret string) string {
	name := strings.ReplaceAll(strings.TrimPrefix(host, "*."), ".", "-")
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: %[1]s, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ["%[2]s"], tls: {mode: SIMPLE, credentialName: %[3]s}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s, namespace: shop}
spec: {hosts: ["%[2]s"], gateways: [%[1]s], http: [{directResponse: {status: 200}}]}
`, name, host, secret)
}

// TestCertificateCostsItself: a host with its certificate more, or one less, has nothing sent but its own, and no listener.
func TestCertificateCostsItself(t *testing.T) {
	c := load(t, "testdata/ingress-on-demand.txtar")
	r := registry.New(&c.mesh)
	apply := func(text string, there bool) (*registry.Snapshot, registry.Changed) {
		var changes []config.Change
		for i := range c.objects {
			changes = append(changes, config.Change{Key: c.objects[i].Key, Object: &c.objects[i]})
		}
		read := decode.File("more.yaml", []byte(text))
		for i := range read.Objects {
			change := config.Change{Key: read.Objects[i].Key}
			if there {
				change.Object = &read.Objects[i]
			}
			changes = append(changes, change)
		}
		return r.Apply(changes)
	}
	var text strings.Builder
	for i := range 100 {
		text.WriteString(certifiedObjects(fmt.Sprintf("x%d.test", i), "shared"))
	}
	s, _ := apply(text.String(), true)
	made := translate.NewTranslator()
	class := translate.Classify(s, c.node)
	v := made.Build(s, class)
	for _, there := range []bool{true, false} {
		next, changed := apply(certifiedObjects("new.test", "shared"), there)
		made.Forget(changed)
		var refs []resource.Ref
		v, refs = made.Update(v, next, changed)
		var names []string
		size := 0
		for _, ref := range refs {
			names = append(names, fmt.Sprint(ref.Type.URL()[strings.LastIndexByte(ref.Type.URL(), '.')+1:], " ", ref.Name))
			if r, is := v.Get(ref.Type, ref.Name); is {
				size += r.Size()
			}
		}
		if want := []string{"ServerName sni/new.test", "VirtualHost https.8443.bank.many.shop/new.test", "VirtualHost https.8443/new.test"}; !slices.Equal(names, want) {
			t.Errorf("there: %t: %q changed, want %q", there, names, want)
		}
		if size > 2<<10 {
			t.Errorf("there: %t: %d bytes", there, size)
		}
	}
	plain := class
	plain.Ingress.OnDemand = false
	made.Build(s, plain).Walk(resource.ServerName, func(r *resource.Resource) bool {
		t.Errorf("an agent that finds no certificates is told of %s", r.Name)
		return false
	})
}
