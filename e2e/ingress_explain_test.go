package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// explainedPolicies deny some of what comes in at the gateway, and some at the pod.
const explainedPolicies = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: gate, namespace: istio-ingress}
spec:
  action: DENY
  rules:
  - to: [{operation: {paths: ["/shut*"], ports: ["8080"]}}]
  - {from: [{source: {ipBlocks: [%s/32]}}], to: [{operation: {methods: [PUT], ports: ["8080"]}}]}
  - {from: [{source: {ipBlocks: [203.0.113.250/32]}}]}
  - {when: [{key: connection.sni, values: [shut.test]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: pod, namespace: shop}
spec:
  selector: {matchLabels: {version: v1}}
  action: DENY
  rules: [{to: [{operation: {methods: [DELETE], paths: ["/kept*"], ports: ["8080"]}}]}]
`

// entering is one try, and what is said of it.
type entering struct {
	url, method string
	header      [2]string
	said        struct {
		explanation
		Status   int
		Location string
		Server   struct{ Kind, Namespace, Name, Rule string }
		Pods     []struct{ Verdict string }
	}
}

// explained holds, for a table of requests, what explain says of the gateway against what becomes of them for real: what the gateway answers itself,
// with which status, what is closed, and what the app gets.
func (in *ingressScene) explained(t *testing.T, gateway string, own []entering) {
	clerk, err := in.clients.Issue("clerk.test")
	if err != nil {
		t.Fatal(err)
	}
	if err := in.scene.Config.Write("explained.yaml", fmt.Sprintf(explainedPolicies, in.clientAddr(t))); err != nil {
		t.Fatal(err)
	}
	try := func(x *entering) (*http.Response, string, error) { return in.enter(t.Context(), x, *clerk) }
	inForce := func() error {
		for url, method := range map[string]string{"http://plain.test/shut": "GET", "http://plain.test/kept": "DELETE"} {
			resp, _, err := try(&entering{url: url, method: method})
			if err != nil {
				return err
			}
			if resp.StatusCode != http.StatusForbidden {
				return fmt.Errorf("%s %s: %s", method, url, resp.Status)
			}
		}
		return nil
	}
	if err := world.Within(t.Context(), time.Minute, inForce); err != nil {
		t.Fatal(err)
	}
	allowed := 0
	for i := range own {
		x := &own[i]
		in.explain(t, gateway, x)
		resp, body, err := try(x)
		if problem := x.differs(resp, body, err); problem != "" {
			t.Errorf("%s %s %v: %s\n\texplain: %+v\n\tfor real: %v %q (%v)", x.method, x.url, x.header, problem, x.said, resp, body, err)
		}
		if x.said.Verdict == "allow" {
			allowed++
		}
	}
	if allowed == 0 || allowed == len(own) {
		t.Errorf("%d of %d are allowed", allowed, len(own))
	}
	if err := in.scene.Config.Remove("explained.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), time.Minute, func() error {
		resp, _, err := try(&entering{url: "http://plain.test/kept", method: "DELETE"})
		if err == nil && resp.StatusCode == http.StatusForbidden {
			err = errors.New("the policies are still in force")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func (in *ingressScene) explain(t *testing.T, gateway string, x *entering) {
	t.Helper()
	args := []string{"explain", "--config-dir", in.scene.Config.Path, "--mesh-config", in.scene.MeshConfig(), "--gateway", gateway, "--address", in.clientAddr(t), "-o", "json"}
	if strings.HasPrefix(x.url, "http") && x.method != "" {
		args = append(args, "--method", x.method)
	}
	if x.header[0] != "" {
		args = append(args, "--header", x.header[0]+"="+x.header[1])
	}
	out, _ := in.scene.Call(t.Context(), append(args, x.url)...)
	if err := json.Unmarshal(out, &x.said); err != nil {
		t.Fatalf("explain %s: %s: %v", x.url, out, err)
	}
}

// enter tries it for real: http, https with a certificate for who asks for one, and tcp.
func (in *ingressScene) enter(ctx context.Context, x *entering, clerk tls.Certificate) (*http.Response, string, error) {
	if port, is := strings.CutPrefix(x.url, "tcp://plain.test:"); is {
		return in.enterBytes(ctx, port)
	}
	transport := in.transport(in.trusting(clerk))
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	method := x.method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, x.url, nil)
	if err != nil {
		return nil, "", err
	}
	if x.header[0] == "host" {
		req.Host = x.header[1]
	} else if x.header[0] != "" {
		req.Header.Set(x.header[0], x.header[1])
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp, string(body), err
}

// enterBytes reads what a server says first; what comes before the port is led on is an error.
func (in *ingressScene) enterBytes(ctx context.Context, port string) (*http.Response, string, error) {
	if inside, mapped := map[string]string{"80": "8080", "443": "8443"}[port]; mapped {
		port = inside
	}
	c, err := in.client.DialContext(ctx, "tcp", net.JoinHostPort(ingressAddr.String(), port))
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(attackTimeout)); err != nil {
		return nil, "", err
	}
	if _, err := io.WriteString(c, "\x00\x01nothing\r\n\r\n"); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return nil, line, err
}

// differs says what is otherwise than was said.
func (x *entering) differs(resp *http.Response, body string, err error) string {
	reached := err == nil && (strings.HasPrefix(body, "v1 ") || strings.HasPrefix(body, "v2 ") || body == "hello\n" || strings.HasPrefix(body, "a host "))
	switch {
	case x.said.Verdict == "allow" && (!reached || resp != nil && resp.StatusCode != http.StatusOK):
		return "the app was not reached"
	case x.said.Verdict == "deny" && reached:
		return "the app was reached"
	case x.said.Status != 0 && (resp == nil || resp.StatusCode != x.said.Status):
		return "another answer"
	case x.said.Location != "" && resp.Header.Get("Location") != x.said.Location:
		return "another Location"
	case x.said.Verdict == "deny" && x.said.Status == 0 && len(x.said.Pods) == 0 && resp != nil && resp.StatusCode != http.StatusBadRequest:
		return "it was answered" // but for what is no HTTP
	}
	return ""
}

// explainIstio leaves /door out: where the control plane itself is, which no endpoint may be, files do not say.
func (in *ingressScene) explainIstio(t *testing.T) {
	in.explained(t, "shop/public", []entering{
		{url: "http://plain.test/"}, {url: "http://plain.test/any?x=1", method: "POST"}, {url: "http://plain.test/a/../shut/down"}, {url: "http://plain.test/%73hut"},
		{url: "http://plain.test/x", method: "PUT"}, {url: "http://plain.test/kept/x", method: "DELETE"}, {url: "http://plain.test/x", method: "DELETE"},
		{url: "http://plain.test/x", header: [2]string{"x-forwarded-for", "203.0.113.250"}},
		{url: "http://plain.test/moved"}, {url: "http://plain.test/itself"}, {url: "http://plain.test/outside"}, {url: "http://plain.test/shares"},
		{url: "http://shop.test/x?y=1"}, {url: "http://unknown.test/"}, {url: "http://other.test/"}, {url: "http://theirs.test/"}, {url: "http://bank.test/"}, {url: "http://plain.test.:80/"},
		{url: "https://shop.test/"}, {url: "https://shop.test/shut"}, {url: "https://unknown.test/"}, {url: "https://bank.test/"}, {url: "https://passed.test/x"},
		{url: "https://shop.test/", header: [2]string{"host", "bank.test"}}, {url: "https://shop.test/", header: [2]string{"host", "passed.test"}}, {url: "https://shop.test/", header: [2]string{"host", "unknown.test"}},
		{url: "tcp://plain.test:9000"}, {url: "tcp://plain.test:443"}, {url: "tcp://plain.test:80"}, {url: "tcp://plain.test:81"},
	})
}

// explainGatewayAPI asks for what all pods behind say the same of, and who is there.
func (in *ingressScene) explainGatewayAPI(t *testing.T) {
	in.explained(t, "istio-ingress/public", []entering{
		{url: "http://plain.test/"}, {url: "http://plain.test/part/of"}, {url: "http://plain.test/party"}, {url: "http://plain.test/part/moved"}, {url: "http://plain.test/missing"},
		{url: "http://plain.test/private"}, {url: "http://plain.test/outside"}, {url: "http://own.test/"}, {url: "http://unknown.test/"}, {url: "http://elsewhere/"},
		{url: "http://plain.test/shut"}, {url: "http://plain.test/x", method: "PUT"},
		{url: "https://shop.test/x"}, {url: "https://shop.test/shut"}, {url: "https://passed.test/x"}, {url: "https://nobody.test/x"}, {url: "https://shop.test/", header: [2]string{"host", "plain.test"}},
		{url: "https://shop.test/", header: [2]string{"host", "passed.test"}}, {url: "tcp://plain.test:9000"}, {url: "tcp://plain.test:443"},
	})
}
