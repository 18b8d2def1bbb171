package incluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/sallyport/sallyport/e2e/outside"
)

// ingressName is asked for from outside; ingressBehind is a client who comes by a proxy that the gateway's pods say is in front of them, and whom a policy refuses.
const (
	ingressName   = "in.shop.test"
	ingressBehind = "198.51.100.7"
)

const ingressObjects = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: in, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: [` + ingressName + `], tls: {mode: SIMPLE, credentialName: in}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: in, namespace: shop}
spec:
  hosts: [` + ingressName + `]
  gateways: [in]
  http: [{route: [{destination: {host: web, port: {number: 8080}}}]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: in, namespace: istio-system}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: DENY
  rules: [{from: [{source: {remoteIpBlocks: [` + ingressBehind + `]}}]}]
`

// fromOutside: what the chart's ingress gateway serves by HTTPS it serves by HTTP/3, too, by its Service's address, and tells who comes by HTTPS; and its pods' annotation says
// how many proxies are believed about who a client is.
func (s *stage) fromOutside() {
	s.Helper()
	ca, err := outside.NewCA()
	s.must(err)
	s.apply(s.ingressSecret(ca))
	s.apply(ingressObjects)
	s.kubectl("rollout", "status", "-n", system, "deployment/istio-ingressgateway", "--timeout=3m")
	at, err := netip.ParseAddr(s.kubectl("get", "service", "-n", system, "istio-ingressgateway", "-o", "jsonpath={.spec.clusterIP}"))
	s.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	trusting := func() *tls.Config { return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} }
	byTCP := func() http.RoundTripper {
		return &http.Transport{TLSClientConfig: trusting(), ForceAttemptHTTP2: true, DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(at, 443).String())
		}}
	}
	byUDP := func() http.RoundTripper {
		return &http3.Transport{TLSClientConfig: trusting(), Dial: func(ctx context.Context, _ string, c *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return quic.DialAddrEarly(ctx, netip.AddrPortFrom(at, 443).String(), c, q)
		}}
	}
	for _, how := range []struct {
		name  string
		by    func() http.RoundTripper
		major int
	}{{"HTTPS", byTCP, 2}, {"HTTP/3", byUDP, 3}} {
		for _, c := range []struct {
			from   string
			status int
		}{{"198.51.100.8", http.StatusOK}, {ingressBehind, http.StatusForbidden}} {
			s.becomes(how.name+", of "+c.from, 2*time.Minute, func() error {
				by := how.by()
				if closes, is := by.(io.Closer); is {
					defer func() { _ = closes.Close() }()
				}
				resp, err := comesBy(s.Context(), by, c.from)
				if err == nil && (resp.StatusCode != c.status || resp.ProtoMajor != how.major || resp.Header.Get("Alt-Svc") != `h3=":443"; ma=86400`) {
					err = fmt.Errorf("%s, %s, Alt-Svc: %q; want %d by HTTP/%d", resp.Status, resp.Proto, resp.Header.Get("Alt-Svc"), c.status, how.major)
				}
				return err
			})
		}
	}
}

// comesBy asks for a page as a proxy does for a client, and gives the answer without its body.
func comesBy(ctx context.Context, by http.RoundTripper, client string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+ingressName+"/", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Forwarded-For", client)
	resp, err := by.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, errors.Join(err, resp.Body.Close())
}

// ingressSecret is a Secret with a certificate for the name, in the gateway's namespace.
func (s *stage) ingressSecret(ca *outside.CA) string {
	s.Helper()
	c, err := ca.Issue(ingressName)
	s.must(err)
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	s.must(err)
	var chain bytes.Buffer
	for _, der := range c.Certificate {
		s.must(pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	indented := func(text []byte) string { return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") }
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: in, namespace: %s}\ntype: kubernetes.io/tls\nstringData:\n  tls.crt: |\n    %s\n  tls.key: |\n    %s\n",
		system, indented(chain.Bytes()), indented(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}
