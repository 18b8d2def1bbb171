package translate_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
)

// TestGatewayCalls holds what an ingress gateway does with single calls to what Istio's gateway does with them: each file has objects.yaml, beside
// the Services of services.yaml, and calls, a line each: PORT URL [sni=NAME] [alpn=NAME] [peer=URI] = RESULT.
func TestGatewayCalls(t *testing.T) {
	files, err := filepath.Glob("testdata/calls/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	services, err := os.ReadFile("testdata/calls/services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			w, calls := readWorld(t, file, "calls", txtar.File{Name: "objects.yaml", Data: services})
			gateway := w.gateway(t, file)
			for line := range strings.Lines(calls) {
				c, want := readCall(t, line)
				got, err := gateway.Connect(c)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if says := resultOf(got); says != want {
					t.Errorf("%s the gateway: %s\n  %s", line, says, strings.Join(got.Steps, "\n  "))
				}
			}
		})
	}
}

// gateway is the Envoy of the ingress gateway's pod; a file may say which one (proxy).
func (w world) gateway(t *testing.T, file string) *interpret.Proxy {
	t.Helper()
	_, p := w.envoys(newDecoder()).node(gatewayNode(t, file), "")
	return p
}

func gatewayNode(t *testing.T, file string) translate.Node {
	t.Helper()
	n := translate.Node{ID: "router~10.244.0.2~gw.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Labels: map[string]string{"istio": "ingressgateway"}}
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		if f.Name == "proxy" {
			if err := json.Unmarshal(f.Data, &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

func readCall(t *testing.T, line string) (c interpret.Connection, want string) {
	t.Helper()
	what, want, ok := strings.Cut(strings.TrimSpace(line), " = ")
	words := strings.Fields(what)
	if !ok || len(words) < 2 {
		t.Fatalf("%q: want PORT URL … = RESULT", line)
	}
	port, err := strconv.ParseUint(words[0], 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(words[1])
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, word := range words[2:] {
		k, v, _ := strings.Cut(word, "=")
		said[k] = v
	}
	c = interpret.Connection{To: netip.AddrPortFrom(netip.MustParseAddr("10.244.0.2"), uint16(port)), From: netip.MustParseAddrPort("203.0.113.9:40000")}
	request := &interpret.Request{Method: "GET", Authority: u.Host, Path: cmp.Or(strings.TrimPrefix(words[1], u.Scheme+"://"+u.Host), "/"), Headers: map[string]string{"user-agent": "client"}}
	hello := &interpret.Hello{SNI: cmp.Or(said["sni"], u.Hostname())}
	if said["sni"] == "-" {
		hello.SNI = ""
	}
	if said["alpn"] != "" {
		hello.ALPN = strings.Split(said["alpn"], ",")
	}
	if said["peer"] != "" {
		hello.Peer = []string{said["peer"]}
	}
	switch u.Scheme {
	case "http":
		c.Bytes.Request = request
	case "https":
		hello.ALPN = append(hello.ALPN, "h2", "http/1.1")
		hello.Inside, c.Bytes.Hello = &interpret.Bytes{Request: request}, hello
	case "tls":
		hello.Inside, c.Bytes.Hello = &interpret.Bytes{}, hello
	case "tcp":
	default:
		t.Fatalf("%q: the scheme %q", line, u.Scheme)
	}
	return c, want
}

// resultOf says what became of a call: the cluster that it went to, the proxy's own answer, or that it was closed.
func resultOf(o interpret.Outcome) string {
	switch {
	case o.Response != nil && o.Response.Headers["location"] != "":
		return fmt.Sprint(o.Response.Status, " ", o.Response.Headers["location"])
	case o.Response != nil:
		return fmt.Sprint(o.Response.Status)
	case strings.HasPrefix(o.Closed, "nothing listens"):
		return "no listener"
	case o.Upstream == nil || o.Upstream.Cluster == "BlackHoleCluster":
		return "closed"
	case o.Upstream.Bytes.Hello != nil && o.Upstream.Bytes.Hello.Inside != nil && o.Upstream.Bytes.Hello.Inside.Request != nil:
		return "TLS " + o.Upstream.Cluster
	default:
		return o.Upstream.Cluster
	}
}
