package tunnels

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
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

// TestAskTables: a connection's own table is asked, and when that has gone with its port's last registration, the one for all other ports.
func TestAskTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "questions")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := proto.Marshal(&servicev3.RateLimitResponse{DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"cluster": structpb.NewStringValue("BlackHoleCluster"), "route": structpb.NewStringValue("block_all"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	there, seen := map[string]bool{"decide-any": true}, ""
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		table := r.Header.Get("x-sallyport-table")
		seen += table + " " + r.Host + " " + r.Header.Get("x-sallyport-to") + " " + r.Header.Get("x-sallyport-range") + ";"
		if !there[table] {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(answer)
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	a := NewAsker(path)
	defer a.Close()
	q := envoylog.Question{Kind: "tls", Authority: ":443", Table: "decide-443", Dialled: "203.0.113.7:443", Range: "range.test:443"}
	const asked = " :443 203.0.113.7:443 range.test:443;"
	if v, err := a.Ask(t.Context(), q); err != nil || !v.Denied || seen != "decide-443"+asked+"decide-any"+asked {
		t.Errorf("asked %q: %+v %v", seen, v, err)
	}
	seen, there["decide-443"] = "", true
	if v, err := a.Ask(t.Context(), q); err != nil || !v.Denied || seen != "decide-443"+asked {
		t.Errorf("asked %q: %+v %v", seen, v, err)
	}
	there = nil
	if v, err := a.Ask(t.Context(), q); err != nil || !v.Denied {
		t.Errorf("no table at all: %+v %v", v, err)
	}
}

// TestRowsOfAddresses: what was asked about by its address is asked about again when a row that has it changes, or that of its host goes.
func TestRowsOfAddresses(t *testing.T) {
	body, err := proto.Marshal(&routev3.VirtualHost{Name: "443/a.test", Domains: []string{"a.test", "240.240.0.9", "[2001:2::9]"}})
	if err != nil {
		t.Fatal(err)
	}
	changed, _ := scopeOf(Change{Type: rowType, Names: []string{"443/a.test"}, Bodies: [][]byte{body}})
	gone, _ := scopeOf(Change{Type: rowType, Names: []string{"443/a.test"}})
	for name, of := range map[string]struct {
		q             envoylog.Question
		changed, gone bool
	}{
		"by name":            {envoylog.Question{Authority: "A.test:443"}, true, true},
		"by address":         {envoylog.Question{Authority: "240.240.0.9:443", Registered: "a.test"}, true, true},
		"by IPv6":            {envoylog.Question{Authority: "[2001:2::9]:443", Registered: "a.test"}, true, true},
		"another":            {envoylog.Question{Authority: "b.test:443", Registered: "b.test"}, false, false},
		"nobody's till then": {envoylog.Question{Authority: "240.240.0.9:443"}, true, false},
	} {
		p := newPlan()
		p.begin(of.q, &tunnel{}, time.Unix(0, 0), time.Unix(100, 0))
		for what, s := range map[string]struct {
			scope scope
			want  bool
		}{"changed": {changed, of.changed}, "gone": {gone, of.gone}} {
			meant := false
			if p.meant(&s.scope, func(*question) { meant = true }); meant != s.want {
				t.Errorf("%s, its row %s: asked again %t, want %t", name, what, meant, s.want)
			}
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	a := NewAsker(filepath.Join(t.TempDir(), "nobody"))
	if v, err := a.Ask(t.Context(), envoylog.Question{Authority: "a.test:443"}); err == nil {
		t.Errorf("%+v", v)
	}
}

// TestAskAtPod: a request that policies let is there as long as its host is registered at its port for anything.
func TestAskAtPod(t *testing.T) {
	path := filepath.Join(t.TempDir(), "questions")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	policies, table, seen := "default", "wrong_protocol", ""
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cluster, route := "PassthroughCluster", policies
		if asked := r.Header.Get("x-sallyport-table"); asked != "" {
			cluster, route = "BlackHoleCluster", table
			seen = asked + " " + r.Method + " " + r.Host + " " + r.Header.Get("x-sallyport-kind")
		}
		body, err := proto.Marshal(&servicev3.RateLimitResponse{DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"cluster": structpb.NewStringValue(cluster), "route": structpb.NewStringValue(route),
		}}})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	a := NewAsker(path)
	defer a.Close()
	q := envoylog.Question{Kind: "http", Authority: "a.test:8080", Method: "GET", Path: "/in", Outside: "1"}
	if v, err := a.AskAtPod(t.Context(), q); err != nil || v.Denied || seen != "decide-8080 POST a.test:8080 tls" {
		t.Errorf("of one that is registered: asked %q: %+v %v", seen, v, err)
	}
	table = "block_all"
	if v, err := a.AskAtPod(t.Context(), q); err != nil || !v.Denied || v.Why != "the host is not registered any more" {
		t.Errorf("of one that is not: %+v %v", v, err)
	}
	seen, q.PortTable = "", "8080~shop"
	if v, err := a.AskAtNode(t.Context(), q); err != nil || !v.Denied || seen != "8080~shop POST a.test:8080 tls" {
		t.Errorf("at a node, of one that is not: asked %q: %+v %v", seen, v, err)
	}
	q.PortTable = ""
	if v, err := a.AskAtNode(t.Context(), q); err != nil || v.Denied {
		t.Errorf("at a node, of one whose table nobody says: %+v %v", v, err)
	}
	q.Outside = "2"
	if v, err := a.AskAtPod(t.Context(), q); err != nil || v.Denied {
		t.Errorf("of one that rules let out: %+v %v", v, err)
	}
}

// TestAskAtWaypoint: a waypoint's table is asked, and where it has no row any more policies alone.
func TestAskAtWaypoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "questions")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	there, seen := true, ""
	answer, err := proto.Marshal(&servicev3.RateLimitResponse{DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"cluster": structpb.NewStringValue("outbound|443||gateway"), "route": structpb.NewStringValue("default"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		table := r.Header.Get("x-sallyport-table")
		if seen += table + " " + r.Host + " " + r.Header.Get("sallyport-registered-in") + ";"; table != "" && !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(answer)
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	a := NewAsker(path)
	defer a.Close()
	q := envoylog.Question{Kind: "tcp", Authority: "a.test:443", Subset: "delta", PortTable: "decide-outside-again"}
	const asked = "decide-outside-again a.test:443 delta;"
	if v, err := a.AskAtWaypoint(t.Context(), q); err != nil || v.Denied || seen != asked {
		t.Errorf("asked %q: %+v %v", seen, v, err)
	}
	seen, there = "", false
	if v, err := a.AskAtWaypoint(t.Context(), q); err != nil || v.Denied || seen != asked+" a.test:443 delta;" {
		t.Errorf("without its row: asked %q: %+v %v", seen, v, err)
	}
}
