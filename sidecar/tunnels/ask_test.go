package tunnels

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"

	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
)

// TestAsk asks somebody who answers as Envoy does.
func TestAsk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "questions")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	status, cluster := http.StatusOK, "outbound|443||a.test"
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, want := range map[string]string{
			"x-sallyport-kind": "tls", "x-sallyport-peer": "spiffe://d/ns/shop/sa/app", "x-sallyport-from": "10.0.0.7",
			"sallyport-registered-in": "shop", "sallyport-dialled": "203.0.113.7:443",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if r.Host != "a.test:443" || r.ProtoMajor != 2 {
			t.Errorf("asked for %s by %s", r.Host, r.Proto)
		}
		body, err := proto.Marshal(&servicev3.RateLimitResponse{OverallCode: servicev3.RateLimitResponse_OK, DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"cluster": structpb.NewStringValue(cluster), "route": structpb.NewStringValue("block_all"),
		}}})
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()

	a := NewAsker(path)
	defer a.Close()
	q := envoylog.Question{Kind: "tls", Authority: "a.test:443", Peer: "spiffe://d/ns/shop/sa/app", From: "10.0.0.7", Subset: "shop~203.0.113.7:443"}
	if v, err := a.Ask(t.Context(), q); err != nil || v.Denied {
		t.Errorf("%+v %v", v, err)
	}
	cluster = "BlackHoleCluster"
	if v, err := a.Ask(t.Context(), q); err != nil || !v.Denied || v.Why == "" {
		t.Errorf("to nowhere: %+v %v", v, err)
	}
	status = http.StatusForbidden
	if v, err := a.Ask(t.Context(), q); err != nil || !v.Denied {
		t.Errorf("a refusal: %+v %v", v, err)
	}
	status = http.StatusServiceUnavailable
	if v, err := a.Ask(t.Context(), q); err == nil {
		t.Errorf("an overloaded gateway: %+v", v)
	}
	status = http.StatusOK
	cluster = ""
	if v, err := a.Ask(t.Context(), q); err == nil {
		t.Errorf("an answer that says nothing: %+v", v)
	}
	q.Authority = "a\x80.test:443"
	if v, err := a.Ask(t.Context(), q); err != nil || !v.Denied {
		t.Errorf("a name that cannot be asked about: %+v %v", v, err)
	}
}

// TestAskAboutARequest: it is asked as what it was, so that policies see it as they did.
func TestAskAboutARequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "questions")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var seen string
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = r.Method + " " + r.Host + " " + r.RequestURI + " " + r.Header.Get("x-sallyport-request") + r.Header.Get("x-sallyport-kind")
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	a := NewAsker(path)
	defer a.Close()
	q := envoylog.Question{Kind: "http", Authority: "a.test:80", Peer: "spiffe://d/ns/shop/sa/app", From: "10.0.0.7", Method: "GET", Path: "/a%2Fb//c;d"}
	if _, err := a.Ask(t.Context(), q); err == nil || seen != "GET a.test:80 /a%2Fb//c;d http" {
		t.Errorf("asked %q, and an empty answer is %v", seen, err)
	}
	q.Path = "//chat"
	if _, err := a.Ask(t.Context(), q); err == nil || seen != "GET a.test:80 //chat http" {
		t.Errorf("asked %q (%v)", seen, err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	a := NewAsker(filepath.Join(t.TempDir(), "nobody"))
	if v, err := a.Ask(t.Context(), envoylog.Question{Authority: "a.test:443"}); err == nil {
		t.Errorf("%+v", v)
	}
}
