package envoylog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
)

func TestUnderWay(t *testing.T) {
	const began = "1795674897.493958001"
	since := time.Unix(1795674897, 493958001).UTC()
	for as, want := range map[string]envoylog.Question{
		"GET - a.test /":                     {Authority: "a.test", Method: "GET", Path: "/"},
		"POST bank a.test:8080 /x/y?key=1":   {Authority: "a.test:8080", Method: "POST", Path: "/x/y", Subset: "bank"},
		"GET - a.test /a b":                  {Authority: "a.test", Method: "GET", Path: "/a%20b"},
		"GET - a.test /\u00fc/%2F":           {Authority: "a.test", Method: "GET", Path: "/%C3%BC/%2F"},
		"GET  a.test /x#12":                  {Authority: "a.test", Method: "GET", Path: "/x"}, // has come whole
		"GET  a.test /x#":                    {Authority: "a.test", Method: "GET", Path: "/x"},
		"GET - [2001:db8::1]:80 /x#fragment": {Authority: "[2001:db8::1]:80", Method: "GET", Path: "/x"},
	} {
		want.Kind, want.Peer, want.From = "http", "spiffe://cluster.local/ns/shop/sa/app", "10.0.0.7"
		got := envoylog.UnderWay(as, want.Peer, want.From, began, "-")
		if got.Unknown || got.Question != want || !got.Began.Equal(since) {
			t.Errorf("%q: %+v", as, got)
		}
	}
	if got := envoylog.UnderWay("GET - "+strings.Repeat("x", 253)+".:65535 /", "-", "127.0.0.1", began, ""); got.Unknown {
		t.Error("a host of 253 bytes is taken for one that is too long")
	}
	if got := envoylog.UnderWay("GET - a.test /", "-", "127.0.0.1", began, ""); got.Unknown || got.Peer != "" {
		t.Errorf("a forward proxy's: %+v", got)
	}
	for kind, known := range map[string]bool{"tls": true, "tcp": true, "": false, "-": false, "http": false} {
		got := envoylog.UnderWay("CONNECT bank a.test:443 -#-", "spiffe://cluster.local/ns/shop/sa/app", "10.0.0.7", began, kind)
		want := envoylog.Question{Kind: kind, Authority: "a.test:443", Peer: "spiffe://cluster.local/ns/shop/sa/app", From: "10.0.0.7", Subset: "bank"}
		if got.Unknown == known || got.Nowhere == known || known && got.Question != want {
			t.Errorf("a CONNECT for %q: %+v", kind, got)
		}
	}
	for what, of := range map[string][3]string{
		"nothing":          {"", "", ""},
		"no path":          {"GET - a.test", "-", began},
		"a path of others": {"GET - a.test x", "-", began},
		"two names":        {"GET - a.test /", "spiffe://a/ns/b/sa/c,spiffe://a/ns/d/sa/e", began},
		"no path at all":   {"OPTIONS - a.test *", "-", began},
		"no time":          {"GET - a.test /", "-", "-"},
		"another address":  {"GET bank~10.0.0.1:80 a.test /", "-", began},
		"a path too long":  {"GET - a.test /" + strings.Repeat("x", 33<<10), "-", began},
		"a host too long":  {"GET - " + strings.Repeat("a.", 30<<10) + "test /", "-", began},
	} {
		if got := envoylog.UnderWay(of[0], of[1], "10.0.0.7", of[2], "-"); got != (envoylog.Tunnel{Unknown: true}) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestLeaving(t *testing.T) {
	const began = "1795674897.493958001"
	for as, want := range map[string]envoylog.Question{
		"GET leaves a.test:443 /x?y#1":       {Authority: "a.test:443", Outside: "leaves", Path: "/x"},
		"GET  a.test:80 /":                   {Authority: "a.test:80", Path: "/"}, // by a waypoint
		"GET leaves 2001:db8::1:8080 /":      {Authority: "[2001:db8::1]:8080", Outside: "leaves", Path: "/"},
		"GET by-policy 192.0.2.1:80 /a%2Fb#": {Authority: "192.0.2.1:80", Outside: "by-policy", Path: "/a%2Fb"},
	} {
		want.Kind, want.Method, want.Peer, want.From = "http", "GET", "spiffe://cluster.local/ns/shop/sa/app", "10.0.0.7"
		for table, port := range map[string]string{"-": "", "": "", "443~shop": "443~shop"} {
			want.PortTable = port
			if got := envoylog.Leaving(as, want.Peer, want.From, began, table); got.Unknown || got.Question != want {
				t.Errorf("%q, %q: %+v", as, table, got)
			}
		}
	}
	if got := envoylog.Leaving("GET leaves a.test", "-", "-", began, ""); !got.Unknown {
		t.Errorf("without a path: %+v", got)
	}
}
