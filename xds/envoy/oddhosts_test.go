package envoy

import (
	"regexp"
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/xds/wire"
)

// TestRefuseOddHosts: what is for several names refuses a Host that is none, behind its answers and before its requests, once; what is for one name takes that alone.
func TestRefuseOddHosts(t *testing.T) {
	row := func(domain string) *routev3.VirtualHost {
		return &routev3.VirtualHost{Domains: []string{domain}, Routes: []*routev3.Route{
			Route("answer", MatchQuestion(""), ToCluster("c")), Route("tunnel", MatchAnyTunnel(), ToCluster("c")), Route("requests", MatchAnyRequest(), ToCluster("c")),
		}}
	}
	for domain, want := range map[string][]string{
		"a.test":   {"answer", "tunnel", "requests"},
		"*.a.test": {"answer", wire.ClosedRoute + noHost, "tunnel", "requests"},
		"*":        {"answer", wire.ClosedRoute + noHost, "tunnel", "requests"},
	} {
		var got []string
		for _, r := range RefuseOddHosts(RefuseOddHosts(row(domain))).Routes {
			got = append(got, r.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the routes are %q, want %q", domain, got, want)
		}
	}
	is := regexp.MustCompile("^(?:" + aHost + ")$")
	for host, want := range map[string]bool{
		"a.test": true, "A.test.:80": true, "_x-y.a.test:": true, "192.0.2.1:80": true, "[2001:db8::1]:80": true, ":80": true, "": true,
		"u@a.test": false, "a.test:p@b.test": false, "a.test,b.test": false, "a.test:80,b.test:80": false, "%61.test": false, "*.a.test": false, "[fe80::1%25eth0]": false, "a.test;b": false, "a.test:8o": false,
	} {
		if got := is.MatchString(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
