package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// askingService is a Service of a namespace whose port leads to one of the second pod's.
func askingService(ns, name, port string, to int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {clusterIP: None, ports: [{name: %[3]s, port: 80, targetPort: %[4]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[2]s-1, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: %[3]s, port: %[4]d, protocol: TCP}]
endpoints: [{addresses: [10.77.0.62], conditions: {ready: true}}]
---
`, ns, name, port, to)
}

// askingRule is a rule for a path that has somebody asked.
func askingRule(path, by string) string {
	return fmt.Sprintf("  - matches: [{path: {type: PathPrefix, value: %s}}]\n    filters: [{type: ExternalAuth, externalAuth: {%s}}]\n    backendRefs: [{name: seen, port: 80}]\n", path, by)
}

// askingRoute has others asked, by gRPC and by HTTP, who are there and who are not.
var askingRoute = askingService("shop", "seen", "http", 8082) + askingService("shop", "authz-http", "http", 8083) + askingService("shop", "authz-grpc", "grpc", authorizerGRPC) +
	askingService("shop", "authz-away", "grpc", authorizerAway) + askingService("bank", "checks", "http", 8083) + askingService("shop", "authz-hangs", "grpc", 8084) + askingService("shop", "authz-hangs-http", "http", 8084) + `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: asking, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: istio-ingress}]
  hostnames: [asked.test, shop.test]
  rules:
` + askingRule("/http", "protocol: HTTP, backendRef: {name: authz-http, port: 80}, http: {path: /check, allowedHeaders: [x-asks]}") +
	askingRule("/some", "protocol: HTTP, backendRef: {name: authz-http, port: 80}, http: {path: /check, allowedHeaders: [x-asks], allowedResponseHeaders: [x-who]}") +
	askingRule("/body", "protocol: HTTP, backendRef: {name: authz-http, port: 80}, http: {path: /check}, forwardBody: {maxSize: 16}") +
	askingRule("/grpc", "protocol: GRPC, backendRef: {name: authz-grpc, port: 80}, grpc: {}") +
	askingRule("/few", "protocol: GRPC, backendRef: {name: authz-grpc, port: 80}, grpc: {allowedHeaders: [x-other]}") +
	askingRule("/away", "protocol: GRPC, backendRef: {name: authz-away, port: 80}, grpc: {}") +
	askingRule("/named", "protocol: GRPC, backendRef: {name: authz-http, port: 80}, grpc: {}") +
	askingRule("/missing", "protocol: GRPC, backendRef: {name: missing, port: 80}, grpc: {}") +
	askingRule("/bank", "protocol: HTTP, backendRef: {name: checks, namespace: bank, port: 80}, http: {path: /check}") +
	askingRule("/hangs/grpc", "protocol: GRPC, backendRef: {name: authz-hangs, port: 80}, grpc: {}") +
	askingRule("/hangs/http", "protocol: HTTP, backendRef: {name: authz-hangs-http, port: 80}, http: {path: /check}") +
	"  - {matches: [{path: {value: /open}}], backendRefs: [{name: seen, port: 80}]}\n"

// askedByRoute: what a rule has asked about goes on where the answer is yes, and nowhere else: not while nobody can be asked, and not to whom nobody lets it ask.
func (in *ingressScene) askedByRoute(t *testing.T) {
	told := in.serveAsked(t)
	if err := in.scene.Config.Write("asking.yaml", askingRoute); err != nil {
		t.Fatal(err)
	}
	client := in.transport(in.trusting())
	defer client.CloseIdleConnections()
	holds := func(path string, header http.Header, body string, status int, seen ...string) {
		t.Helper()
		in.becomes(t, func() error {
			got, text, err := in.post(t.Context(), client, "http://asked.test"+path, header, body)
			switch {
			case err != nil:
				return err
			case got != status:
				return fmt.Errorf("%s %v: %d %q, want %d", path, header, got, text, status)
			}
			for _, want := range seen {
				if no, absent := strings.CutPrefix(want, "!"); absent == strings.Contains(text, strings.TrimPrefix(want, "!")) {
					return fmt.Errorf("%s: %q, want %q (absent: %t %s)", path, text, want, absent, no)
				}
			}
			return nil
		})
	}
	deny := http.Header{"X-Asks": {"deny"}}
	holds("/open", deny, "", 200)
	holds("/http/x", http.Header{"X-Who": {"forged"}, "Content-Type": {"text/mine"}}, "the body", 200, "host asked.test", "who bert", "other yes", "body the body", "type text/mine", "!retry 5xx")
	holds("/http/x", deny, "", 402)
	holds("/some", nil, "", 200, "who bert", "!other yes")
	holds("/body", nil, "fine", 200, "body fine")
	holds("/body", nil, "a secret", 402)
	holds("/body", nil, "this is longer than what may be told", 413)
	holds("/grpc", nil, "", 200, "who anna")
	holds("/grpc", deny, "", 401)
	holds("/few", deny, "", 200) // it was not told
	holds("/away", nil, "", 403)
	holds("/named", nil, "", 500)
	holds("/missing", nil, "", 500)
	holds("/bank", nil, "", 500)
	if err := in.scene.Config.Write("grant-asking.yaml", strings.ReplaceAll(grantObjects, "name: shop", "name: asking")); err != nil {
		t.Fatal(err)
	}
	holds("/bank", nil, "", 200, "who bert")
	if err := in.scene.Config.Remove("grant-asking.yaml"); err != nil {
		t.Fatal(err)
	}
	holds("/bank", nil, "", 500)
	in.askedWhoHangs(t, client)
	if told := told(); !slices.Contains(told, "POST /check/http/x asked.test") {
		t.Errorf("the authorizer was told %q", told)
	}
	in.becomes(t, func() error {
		records, err := in.scene.AuditRecords(t.Context(), "--verdict", "denied", "--host", "asked.test")
		if err == nil && !slices.ContainsFunc(records, func(r record.Record) bool {
			return r.Direction == record.Inbound && r.URLPath == "/http/x" && r.DecidedBy.Kind == "HTTPRoute" && r.DecidedBy.Name == "asking" && strings.Contains(r.Reason, "authorizer")
		}) {
			err = fmt.Errorf("what the authorizer denies is not among %+v", records)
		}
		return err
	})
}

// askedWhoHangs: where who is asked takes connections and says nothing, many who ask are answered 403 in time, and nobody else waits.
func (in *ingressScene) askedWhoHangs(t *testing.T, client http.RoundTripper) {
	t.Helper()
	const most, many = 10 * time.Second, 40 // how long a route waits for an answer (docs/adr/0101-routes-that-ask.md)
	began := time.Now()
	answers := make(chan error, 2*many)
	for i := range cap(answers) {
		go func() {
			path := []string{"/hangs/grpc", "/hangs/http"}[i%2]
			status, text, err := in.postWithin(t.Context(), 3*time.Minute, client, "http://asked.test"+path, nil, "")
			switch took := time.Since(began); {
			case err == nil && status != http.StatusForbidden:
				err = fmt.Errorf("%s: %d %q", path, status, text)
			case err == nil && took < most-time.Second:
				err = fmt.Errorf("%s is answered after %s: nobody hangs", path, took)
			}
			answers <- err
		}()
	}
	others := 0
	for waiting := cap(answers); waiting > 0; {
		select {
		case err := <-answers:
			if waiting--; err != nil {
				t.Error(err)
			}
		default:
			if status, text, err := in.post(t.Context(), client, "http://asked.test/open", nil, ""); err != nil || status != http.StatusOK {
				t.Errorf("while somebody waits, another one reads %d %q (%v)", status, text, err)
			}
			others++
		}
	}
	took := time.Since(began)
	t.Logf("%d were answered after %s, and %d others meanwhile", cap(answers), took.Round(time.Millisecond), others)
	if others <= 1+int(took/most) { // one after the other: who has to wait makes no more, however long all of it takes on a busy machine
		t.Errorf("only %d others were answered in %s", others, took)
	}
}

// post sends something, and gives the answer.
func (in *ingressScene) post(ctx context.Context, by http.RoundTripper, url string, header http.Header, body string) (int, string, error) {
	return in.postWithin(ctx, attackTimeout, by, url, header, body)
}

func (in *ingressScene) postWithin(ctx context.Context, within time.Duration, by http.RoundTripper, url string, header http.Header, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, string(text), err
}

// serveAsked starts, at the pod that has no proxy, an app that says what it saw, and two authorizers. It gives what the one that is asked by HTTP was told.
func (in *ingressScene) serveAsked(t *testing.T) (told func() []string) {
	t.Helper()
	listen := func(port int) net.Listener {
		l, err := in.beside.Listen(net.JoinHostPort(web2Addr.String(), fmt.Sprint(port)))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	var mu sync.Mutex
	var said []string
	app := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "host %s who %s other %s retry %s type %s body %s\n", r.Host, r.Header.Get("X-Who"), r.Header.Get("X-Other"), r.Header.Get("X-Envoy-Retry-On"), r.Header.Get("Content-Type"), body)
	})}
	byHTTP := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		said = append(said, r.Method+" "+r.URL.Path+" "+r.Host)
		mu.Unlock()
		for name, value := range map[string]string{"X-Who": "bert", "X-Other": "yes", "Host": "evil.test", "X-Envoy-Retry-On": "5xx", "Content-Type": "text/theirs"} {
			w.Header().Set(name, value)
		}
		if r.Header.Get("X-Asks") == "deny" || strings.Contains(string(body), "secret") {
			w.WriteHeader(http.StatusPaymentRequired)
		}
		_, _ = io.WriteString(w, "what the authorizer says")
	})}
	byGRPC := grpc.NewServer()
	authv3.RegisterAuthorizationServer(byGRPC, &authorizer{})
	var done sync.WaitGroup
	hangs := listen(8084)
	done.Go(func() {
		var open []net.Conn
		for {
			c, err := hangs.Accept()
			if err != nil {
				break
			}
			open = append(open, c) // nothing is read, and nothing said
		}
		for _, c := range open {
			_ = c.Close()
		}
	})
	for l, serve := range map[net.Listener]func(net.Listener) error{listen(8082): app.Serve, listen(8083): byHTTP.Serve, listen(authorizerGRPC): byGRPC.Serve} {
		done.Go(func() { _ = serve(l) })
	}
	t.Cleanup(func() {
		byGRPC.Stop()
		_ = errors.Join(app.Close(), byHTTP.Close(), hangs.Close())
		done.Wait()
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(said)
	}
}
