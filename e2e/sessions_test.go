package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// sessionObjects are Services of two pods, of one each, and of two servers beside a sidecar, with routes that keep sessions with them.
const sessionObjects = `apiVersion: v1
kind: Service
metadata: {name: held, namespace: shop}
spec: {clusterIP: 10.96.0.71, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: held-1, namespace: shop, labels: {kubernetes.io/service-name: held}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [HELD]
---
apiVersion: v1
kind: Service
metadata: {name: first, namespace: shop}
spec: {clusterIP: 10.96.0.72, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: first-1, namespace: shop, labels: {kubernetes.io/service-name: first}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.77.0.61], conditions: {ready: true}}]
---
apiVersion: v1
kind: Service
metadata: {name: second, namespace: shop}
spec: {clusterIP: 10.96.0.73, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: second-1, namespace: shop, labels: {kubernetes.io/service-name: second}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.77.0.62], conditions: {ready: true}}]
---
apiVersion: v1
kind: Service
metadata: {name: beside, namespace: shop}
spec: {clusterIP: 10.96.0.74, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: beside-1, namespace: shop, labels: {kubernetes.io/service-name: beside}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.77.0.62], conditions: {ready: true}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: beside-2, namespace: shop, labels: {kubernetes.io/service-name: beside}}
addressType: IPv4
ports: [{name: http, port: 8081, protocol: TCP}]
endpoints: [{addresses: [10.77.0.62], conditions: {ready: true}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: kept, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: istio-ingress}]
  hostnames: [kept.test, shop.test]
  rules:
  - matches: [{path: {type: PathPrefix, value: /one}}]
    backendRefs: [{name: held, port: 80}]
    sessionPersistence: {sessionName: sid}
  - matches: [{path: {type: Exact, value: /exact}}]
    backendRefs: [{name: held, port: 80}]
    sessionPersistence: {sessionName: exact, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}
  - matches: [{path: {type: PathPrefix, value: /header}}]
    backendRefs: [{name: held, port: 80}]
    sessionPersistence: {type: Header, sessionName: X-Held}
  - matches: [{path: {type: PathPrefix, value: /first}}]
    backendRefs: [{name: first, port: 80}]
    sessionPersistence: {sessionName: sid}
  - matches: [{path: {type: PathPrefix, value: /split}}]
    backendRefs: [{name: first, port: 80, weight: WEIGHT}, {name: second, port: 80}]
    sessionPersistence: {sessionName: split}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: from-pods, namespace: shop}
spec:
  parentRefs: [{group: "", kind: Service, name: beside, port: 80}]
  rules: [{backendRefs: [{name: beside, port: 80}], sessionPersistence: {}}]
`

const (
	heldOne = "{addresses: [10.77.0.61], conditions: {ready: true}}"
	heldTwo = "{addresses: [10.77.0.62], conditions: {ready: true}}"
)

// begun is a session that an answer began: who answered, and what the client has to say.
type begun struct {
	by     string
	cookie *http.Cookie
	header string
}

// says is the request's header of a session.
func (b begun) says() http.Header {
	if b.cookie == nil {
		return http.Header{"X-Held": {b.header}}
	}
	return http.Header{"Cookie": {b.cookie.Name + "=" + b.cookie.Value}}
}

// sessionsKept: a client stays with the pod that answered it, at gateways and from pod to pod, while the pod is there, and gets to no pod that the route
// does not lead to, whatever its cookie says.
func (in *ingressScene) sessionsKept(t *testing.T) {
	write := func(held, weight string) {
		t.Helper()
		if err := in.scene.Config.Write("sessions.yaml", strings.NewReplacer("HELD", held, "WEIGHT", weight).Replace(sessionObjects)); err != nil {
			t.Fatal(err)
		}
	}
	write(heldOne+", "+heldTwo, "1")
	outside := in.transport(in.trusting())
	defer outside.CloseIdleConnections()
	other := "http://kept.test/one"
	one := in.begins(t, outside, other, "v1", "v2")
	t.Run("a cookie", func(t *testing.T) {
		c := one["v2"].cookie
		if c.Name != "sid" || c.Path != "/one" || !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 0 || !c.Expires.IsZero() {
			t.Errorf("%+v", c)
		}
		in.stays(t, outside, other+"/below?q=1", one)
		secure := in.begins(t, outside, "https://shop.test/one", "v1", "v2")
		if !secure["v1"].cookie.Secure {
			t.Errorf("by TLS: %+v", secure["v1"].cookie)
		}
		in.stays(t, outside, "https://shop.test/one", secure)
	})
	t.Run("a permanent cookie, and an exact path", func(t *testing.T) {
		lasting := in.begins(t, outside, "http://kept.test/exact?q=1", "v1", "v2")
		if c := lasting["v1"].cookie; c.MaxAge != 3600 || c.Path != "/exact" {
			t.Errorf("%+v", c)
		}
		in.stays(t, outside, "http://kept.test/exact", lasting)
		in.stays(t, outside, "http://kept.test/exact?q=2", lasting)
	})
	t.Run("a header", func(t *testing.T) {
		in.stays(t, outside, "http://kept.test/header", in.begins(t, outside, "http://kept.test/header", "v1", "v2"))
	})
	t.Run("forged", func(t *testing.T) {
		for _, value := range []string{
			base64.StdEncoding.EncodeToString([]byte("\x0a\x0f10.77.0.62:8080")), // bank's pod, which /first does not lead to
			base64.StdEncoding.EncodeToString([]byte("10.77.0.62:8080")), "10.77.0.62:8080", "%00", base64.StdEncoding.EncodeToString([]byte("\x0a\x0f127.0.0.1:15000")),
			one["v2"].cookie.Value,
		} {
			for range 5 {
				got, resp, err := in.asks(t.Context(), outside, "http://kept.test/first", http.Header{"Cookie": {"sid=" + value}})
				if err != nil || got.by != "v1" || resp.StatusCode != http.StatusOK {
					t.Errorf("%s: %v %v (%v)", value, got, resp, err)
				}
			}
		}
	})
	t.Run("several backends", func(t *testing.T) {
		split := in.begins(t, outside, "http://kept.test/split", "v1", "v2")
		if split["v1"].cookie.Name != "split" || !strings.HasPrefix(split["v2"].cookie.Name, "split-") {
			t.Errorf("%+v", split)
		}
		in.stays(t, outside, "http://kept.test/split", split)
		write(heldOne+", "+heldTwo, "0") // whoever is new goes to the second
		in.becomes(t, func() error {
			for range 10 {
				if got, _, err := in.asks(t.Context(), outside, "http://kept.test/split", nil); err != nil || got.by != "v2" {
					return fmt.Errorf("%v (%w)", got, err)
				}
			}
			return nil
		})
		in.stays(t, outside, "http://kept.test/split", split)
	})
	t.Run("from pod to pod", func(t *testing.T) {
		in.serveBeside(t)
		inside := &http.Transport{DialContext: in.pod.DialContext}
		defer inside.CloseIdleConnections()
		two := in.begins(t, inside, "http://10.96.0.74/", "v2", "v3")
		if c := two["v2"].cookie; !strings.HasPrefix(c.Name, "session-") || c.Path != "/" || c.Secure {
			t.Errorf("%+v", c)
		}
		in.stays(t, inside, "http://10.96.0.74/below", two)
	})
	t.Run("the pod goes", func(t *testing.T) {
		write(heldOne, "1")
		in.becomes(t, func() error {
			got, resp, err := in.asks(t.Context(), outside, other, one["v2"].says())
			if err != nil || resp.StatusCode != http.StatusOK { // it fails at no time
				t.Fatalf("%v (%v)", resp, err)
			}
			if got.by != "v1" || got.cookie == nil {
				return fmt.Errorf("%+v", got)
			}
			return nil
		})
	})
}

// asks gets a page, and reads the session that its answer begins.
func (in *ingressScene) asks(ctx context.Context, by http.RoundTripper, url string, header http.Header) (begun, *http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return begun{}, nil, err
	}
	if strings.HasPrefix(url, "http://10.") {
		req.Host = "beside.shop"
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return begun{}, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	out := begun{header: resp.Header.Get("X-Held")}
	out.by, _, _ = strings.Cut(string(body), " ")
	if list := resp.Cookies(); len(list) > 0 {
		out.cookie = list[0]
	}
	return out, resp, err
}

// begins asks anew until each has answered, and gives the sessions.
func (in *ingressScene) begins(t *testing.T, by http.RoundTripper, url string, all ...string) map[string]begun {
	t.Helper()
	out := map[string]begun{}
	in.becomes(t, func() error {
		got, resp, err := in.asks(t.Context(), by, url, nil)
		switch {
		case err != nil:
			return err
		case resp.StatusCode != http.StatusOK || got.cookie == nil && got.header == "":
			return fmt.Errorf("%s: %+v", resp.Status, got)
		}
		if out[got.by] = got; len(out) < len(all) {
			return fmt.Errorf("%d of %d have answered", len(out), len(all))
		}
		return nil
	})
	for name := range out {
		if !slices.Contains(all, name) {
			t.Fatalf("%s answered", name)
		}
	}
	return out
}

// stays holds each client to who answered it.
func (in *ingressScene) stays(t *testing.T, by http.RoundTripper, url string, sessions map[string]begun) {
	t.Helper()
	for want, b := range sessions {
		for range 12 {
			got, _, err := in.asks(t.Context(), by, url, b.says())
			if err != nil || got.by != want || got.cookie != nil {
				t.Fatalf("%s: %s's client: %+v (%v)", url, want, got, err)
			}
		}
	}
}

func (in *ingressScene) becomes(t *testing.T, check func() error) {
	t.Helper()
	if err := world.Within(t.Context(), time.Minute, check); err != nil {
		t.Fatal(err)
	}
}

// serveBeside starts one more server at the pod that has no proxy.
func (in *ingressScene) serveBeside(t *testing.T) {
	t.Helper()
	l, err := in.beside.Listen(net.JoinHostPort(web2Addr.String(), "8081"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "v3 beside")
	})}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { _ = server.Close(); done.Wait() })
}
