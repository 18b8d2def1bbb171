package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// manyListeners is how many hosts there are at a Gateway of the Gateway API, each with a ListenerSet and a certificate: more than have filter chains of
// their own.
const manyListeners = 60

// TestIngressManyListeners: a Gateway of the Gateway API with many listeners shows each name its own certificate, leads each connection to its own
// listener's routes, and closes what nobody has at once; also when its agent comes back and nobody is there to tell it anything.
func TestIngressManyListeners(t *testing.T) {
	needRoot(t)
	t.Parallel()
	objects := strings.Replace(gatewayAPIObjects, "  gatewayClassName: sallyport\n", "  gatewayClassName: sallyport\n  allowedListeners: {namespaces: {from: All}}\n", 1)
	in := newIngressOf(t, objects, "gateway.networking.k8s.io/gateway-name=public")
	for i := range manyListeners {
		in.addListener(t, fmt.Sprintf("many-%d", i), manyHost(i))
	}
	in.addListener(t, "wild", "*.wild.many.test")
	in.addListener(t, "in-wild", "in.wild.many.test")
	for i := range manyListeners {
		in.isShown(t, manyHost(i), nil)
	}
	in.isShown(t, "in.wild.many.test", nil)
	in.isShown(t, "x.wild.many.test", nil)
	t.Run("names", func(t *testing.T) {
		for name, subject := range map[string]string{manyHost(5): manyHost(5), "x.wild.many.test": "*.wild.many.test", "in.wild.many.test": "in.wild.many.test", "shop.test": "shop.test"} {
			if got, err := in.subject(t, name); err != nil || got != subject {
				t.Errorf("%s is shown the certificate of %q (%v), want %q", name, got, err, subject)
			}
		}
	})
	t.Run("requests", func(t *testing.T) {
		for _, c := range []struct {
			opened, asked string
			want          int
		}{
			{manyHost(3), manyHost(3), 200},
			{strings.ToUpper(manyHost(3)), manyHost(3), 200},
			{manyHost(3), manyHost(4), 421},
			{"x.wild.many.test", "x.wild.many.test", 200},
			{"x.wild.many.test", "y.wild.many.test", 200}, // the same listener's
			{"x.wild.many.test", "in.wild.many.test", 421},
			{"x.wild.many.test", manyHost(4), 421},
			{"in.wild.many.test", "in.wild.many.test", 200},
			{"shop.test", "shop.test", 200},
			{"shop.test", manyHost(4), 421},
			{manyHost(4), "shop.test", 421},
			{manyHost(4), "passed.test", 421},
			{manyHost(4), "nobody.test", 404},
		} {
			var resp *http.Response
			var body string
			err := world.Within(t.Context(), time.Minute, func() (err error) {
				transport := in.transport(in.trusting())
				defer transport.CloseIdleConnections()
				resp, body, err = fetchBy(t.Context(), transport, "https://"+c.opened+"/", c.asked)
				if err == nil && resp.StatusCode != c.want {
					err = fmt.Errorf("%s %q", resp.Status, body)
				}
				return err
			})
			if err != nil || c.want == 200 && !strings.Contains(body, c.asked) {
				t.Errorf("%s over a connection opened for %s: %v %q, want %d", c.asked, c.opened, err, body, c.want)
			}
		}
	})
	t.Run("nobody's", func(t *testing.T) {
		for _, name := range []string{"", "nobody.test", "wild.many.test", "default", "ROOTCA", "kubernetes://shop/many-1", "many-1", strings.Repeat("x", 250)} {
			in.closedAtOnce(t, name)
		}
		in.refusalIsRecorded(t, "nobody.test")
	})
	t.Run("rotation", func(t *testing.T) {
		was, beside := in.shown(t, manyHost(7)), in.shown(t, manyHost(8))
		in.writeShopCertificate(t, "many-7", manyHost(7))
		in.isShown(t, manyHost(7), func() error {
			now, err := in.shows(t.Context(), manyHost(7))
			if err == nil && bytes.Equal(now, was) {
				err = errors.New("the certificate is still the old one")
			}
			return err
		})
		if !bytes.Equal(in.shown(t, manyHost(8)), beside) {
			t.Error("another one changed")
		}
	})
	t.Run("a Secret that goes", func(t *testing.T) {
		in.comesBack(t, "many-9.yaml", manyHost(9), func() { in.writeShopCertificate(t, "many-9", manyHost(9)) })
	})
	t.Run("a listener that goes", func(t *testing.T) {
		in.comesBack(t, "set-many-10.yaml", manyHost(10), func() { in.addListener(t, "many-10", manyHost(10)) })
	})
	t.Run("without a controller", func(t *testing.T) {
		if err := in.scene.KillController(t.Context()); err != nil {
			t.Fatal(err)
		}
		in.withoutController(t, "never-before.wild.many.test")
	})
	t.Run("from disk", func(t *testing.T) {
		if err := in.gateway.Restart(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		in.withoutController(t, "nor-before.wild.many.test")
	})
}

// refusalIsRecorded waits for the record of a handshake that was refused for its name.
func (in *ingressScene) refusalIsRecorded(t *testing.T, name string) {
	t.Helper()
	err := world.Within(t.Context(), time.Minute, func() error {
		records, err := in.scene.AuditRecords(t.Context(), "--verdict", "denied", "--host", name)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.SNI == name && r.Verdict == record.Denied && r.Direction == record.Inbound && strings.Contains(r.Reason, "no certificate") {
				return nil
			}
		}
		return fmt.Errorf("of %d records none is of %s, refused", len(records), name)
	})
	if err != nil {
		t.Error(err)
	}
}

// withoutController holds the gateway to what it had.
func (in *ingressScene) withoutController(t *testing.T, below string) {
	t.Helper()
	in.isShown(t, manyHost(11), nil)
	in.isShown(t, below, nil)
	if resp, body, err := in.get(t.Context(), "https://"+manyHost(11)+"/", in.trusting()); err != nil || resp.StatusCode != 200 {
		t.Errorf("a page: %v %q (%v)", resp, body, err)
	}
	in.closedAtOnce(t, "nobody.test")
}

// comesBack takes a file away, without which a host is closed, and others are not, and brings it back.
func (in *ingressScene) comesBack(t *testing.T, file, host string, back func()) {
	t.Helper()
	if err := in.scene.Config.Remove(file); err != nil {
		t.Fatal(err)
	}
	in.isRefused(t, host)
	in.isShown(t, manyHost(12), nil)
	back()
	in.isShown(t, host, nil)
}

// writeShopCertificate writes a Secret of namespace shop.
func (in *ingressScene) writeShopCertificate(t *testing.T, secret, name string) {
	t.Helper()
	c, err := in.ca.Renew(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.scene.Config.Write(secret+".yaml", strings.Replace(secretOf(secret, c, nil), "namespace: istio-ingress", "namespace: shop", 1)); err != nil {
		t.Fatal(err)
	}
}

// addListener adds a host, as its owner would: a Secret, a ListenerSet of one listener, and a route.
func (in *ingressScene) addListener(t *testing.T, name, host string) {
	t.Helper()
	in.writeShopCertificate(t, name, host)
	err := in.scene.Config.Write("set-"+name+".yaml", fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: %[1]s, namespace: shop, creationTimestamp: "2026-03-01T00:00:00Z"}
spec:
  parentRef: {name: public, namespace: istio-ingress}
  listeners: [{name: https, port: 443, protocol: HTTPS, hostname: %[2]q, tls: {certificateRefs: [{name: %[1]s}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, namespace: shop}
spec:
  parentRefs: [{kind: ListenerSet, name: %[1]s}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`, name, host))
	if err != nil {
		t.Fatal(err)
	}
}
