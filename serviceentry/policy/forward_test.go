package policy_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestDecideForward: an explicit forward proxy lets out what is registered for its namespace, and nothing else, whatever
// outboundTrafficPolicy says.
func TestDecideForward(t *testing.T) {
	for _, allowAny := range []bool{true, false} {
		s := read(t, allowAny, objects)
		for url, want := range map[string]string{ // the cluster, or words of the reason
			"https://exact.test": "outbound|443||exact.test", "http://exact.test": "outbound|80||exact.test", "tcp://exact.test:5432": "outbound|5432||exact.test",
			"https://a.wild.test": "outbound|443||*.wild.test", "http://exact.test:5432": "outbound|5432||exact.test", "https://straight.test": "outbound|443||straight.test",
			"http://exact.test:443": "registered as TLS", "tcp://exact.test:443": "registered as TLS", "https://exact.test:80": "registered as HTTP",
			"https://nobody.test": "nobody registered the host", "https://wild.test": "nobody registered", "https://private.test": "does not export it to namespace default",
			"https://203.0.113.7": "an address is none", "http://web.default.svc.cluster.local": "inside the mesh", "tcp://exact.test:53": "not port 53",
			"https://exact.test:8443": "not port 8443",
		} {
			v := policy.DecideForward(s, "default", parse(t, url))
			if v.Allowed != strings.HasPrefix(want, "outbound|") || (v.Allowed && v.Cluster != want) || (!v.Allowed && !strings.Contains(v.Reason, want)) {
				t.Errorf("%s: allowed %t, %s, %s; want %s", url, v.Allowed, v.Cluster, v.Reason, want)
			}
		}
	}
}
