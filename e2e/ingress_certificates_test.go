package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// manyCertificates is how many hosts there are with a certificate each: more than have filter chains of their own.
const manyCertificates = 200

// TestIngressManyCertificates: a gateway with many certificates shows each name its own, and closes what nobody has at once.
func TestIngressManyCertificates(t *testing.T) {
	needRoot(t)
	t.Parallel()
	in := newIngress(t)
	in.addMany(t)
	in.isShown(t, manyHost(manyCertificates-1), nil)
	for i := range manyCertificates {
		in.isShown(t, manyHost(i), nil)
	}
	in.servesPage(t, manyHost(3))
	if _, body, err := in.get(t.Context(), "https://shop.test/", in.trusting()); err != nil || !strings.HasPrefix(body, "v1 shop.test") {
		t.Errorf("an older server: %q (%v)", body, err)
	}
	t.Run("patterns", func(t *testing.T) {
		for name, subject := range map[string]string{"x.wild.many.test": "*.wild.many.test", "in.wild.many.test": "in.wild.many.test"} {
			if got, err := in.subject(t, name); err != nil || got != subject {
				t.Errorf("%s is shown the certificate of %q (%v), want %q", name, got, err, subject)
			}
		}
	})
	t.Run("nobody's", func(t *testing.T) {
		// names of secrets are none of hosts
		for _, name := range []string{"", "nobody.test", "wild.many.test", "default", "ROOTCA", "kubernetes://istio-ingress/shop-cert", "many-1", strings.Repeat("x", 250)} {
			in.closedAtOnce(t, name)
		}
		for i := range 100 {
			in.closedAtOnce(t, fmt.Sprintf("made-up-%d.test", i))
		}
	})
	t.Run("rotation", func(t *testing.T) {
		was, beside := in.shown(t, manyHost(7)), in.shown(t, manyHost(8))
		in.writeCertificate(t, "many-7", manyHost(7), nil)
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
		if err := in.scene.Config.Remove("many-9.yaml"); err != nil {
			t.Fatal(err)
		}
		in.isRefused(t, manyHost(9))
		in.isShown(t, manyHost(10), nil)
		in.writeCertificate(t, "many-9", manyHost(9), nil)
		in.isShown(t, manyHost(9), nil)
	})
	t.Run("without a controller", func(t *testing.T) {
		if err := in.scene.KillController(t.Context()); err != nil {
			t.Fatal(err)
		}
		in.isShown(t, manyHost(11), nil)
		in.isShown(t, "never-before.wild.many.test", nil)
		in.closedAtOnce(t, "nobody.test")
	})
}

func manyHost(i int) string { return fmt.Sprintf("s%d.many.test", i) }

// addMany adds the hosts, each with a server and a Secret, and one route for all of them.
func (in *ingressScene) addMany(t *testing.T) {
	t.Helper()
	var servers strings.Builder
	server := func(name, secret string) {
		in.writeCertificate(t, secret, name, nil)
		fmt.Fprintf(&servers, "  - {port: {number: 443, name: https-%s, protocol: HTTPS}, hosts: [%q], tls: {mode: SIMPLE, credentialName: %s}}\n", secret, name, secret)
	}
	for i := range manyCertificates {
		server(manyHost(i), fmt.Sprintf("many-%d", i))
	}
	server("*.wild.many.test", "wild")
	server("in.wild.many.test", "in-wild")
	err := in.scene.Config.Write("many.yaml", `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: many, namespace: shop, creationTimestamp: "2026-03-01T00:00:00Z"}
spec:
  selector: {istio: ingressgateway}
  servers:
`+servers.String()+`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: many, namespace: shop, creationTimestamp: "2026-03-01T00:00:00Z"}
spec:
  hosts: ["*.many.test"]
  gateways: [many]
  http: [{route: [{destination: {host: web, port: {number: 80}, subset: v1}}]}]
`)
	if err != nil {
		t.Fatal(err)
	}
}

// handshake is one with a name; "" says none.
func (in *ingressScene) handshake(t *testing.T, name string) (*tls.ConnectionState, error) {
	t.Helper()
	raw, err := in.client.DialContext(t.Context(), "tcp", net.JoinHostPort(ingressAddr.String(), "8443"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }()
	config := in.trusting()
	if config.ServerName = name; name == "" {
		config.InsecureSkipVerify = true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := c.ConnectionState()
	return &state, nil
}

// subject is the name in the certificate that a name is shown, which is verified.
func (in *ingressScene) subject(t *testing.T, name string) (string, error) {
	t.Helper()
	state, err := in.handshake(t, name)
	if err != nil {
		return "", err
	}
	return state.PeerCertificates[0].DNSNames[0], nil
}

// isShown waits until a name is shown a certificate of its own, and more, if there is any.
func (in *ingressScene) isShown(t *testing.T, name string, more func() error) {
	t.Helper()
	err := world.Within(t.Context(), time.Minute, func() error {
		if _, err := in.subject(t, name); err != nil || more == nil {
			return err
		}
		return more()
	})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// closedAtOnce holds the gateway to a word about a name that nobody has: Envoy's own patience ends without one.
func (in *ingressScene) closedAtOnce(t *testing.T, name string) {
	t.Helper()
	if err := in.refuses(t, name); err != nil {
		t.Error(err)
	}
}

// isRefused waits until a name has nobody any more, which is when the gateway says so, and not when a handshake fails otherwise.
func (in *ingressScene) isRefused(t *testing.T, name string) {
	t.Helper()
	if err := world.Within(t.Context(), time.Minute, func() error { return in.refuses(t, name) }); err != nil {
		t.Error(err)
	}
}

func (in *ingressScene) refuses(t *testing.T, name string) error {
	t.Helper()
	if _, err := in.handshake(t, name); err == nil || !strings.Contains(err.Error(), "handshake failure") {
		return fmt.Errorf("%q: %w, want the gateway to refuse it", name, err)
	}
	return nil
}

// servesPage waits until a name's page is the first pods': a certificate is there before the routes that came with it.
func (in *ingressScene) servesPage(t *testing.T, name string) {
	t.Helper()
	if err := world.Within(t.Context(), time.Minute, func() error {
		resp, body, err := in.get(t.Context(), "https://"+name+"/", in.trusting())
		if err == nil && (resp.StatusCode != 200 || !strings.HasPrefix(body, "v1 "+name)) {
			err = fmt.Errorf("%s %q", resp.Status, body)
		}
		return err
	}); err != nil {
		t.Errorf("a page of %s: %v", name, err)
	}
}
