package serve

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/sallyport/sallyport/xds/resource"
)

func askFor(n int, pattern string) *discovery.DeltaDiscoveryRequest {
	req := &discovery.DeltaDiscoveryRequest{}
	for i := range n {
		req.ResourceNamesSubscribe = append(req.ResourceNamesSubscribe, fmt.Sprintf(pattern, i))
	}
	return req
}

// TestPace: who comes back and asks for all that its pod uses does not wait, nor who asks for everything; who asks on and on waits, and gets its turn.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		took := func(req *discovery.DeltaDiscoveryRequest, of resource.Type) time.Duration {
			began := time.Now()
			p.wait(req, of, nil)
			return time.Since(began).Round(time.Millisecond)
		}
		for _, c := range []struct {
			what string
			req  *discovery.DeltaDiscoveryRequest
			of   resource.Type
			want time.Duration
		}{
			{"an agent that comes back", askFor(asksAtOnce, "80/%d.test"), resource.VirtualHost, 0},
			{"all rows", askFor(1, "*%.0d"), resource.VirtualHost, 0},
			{"a second's worth", askFor(asksPerSecond, "80/%d.test"), resource.VirtualHost, time.Second},
			{"patterns", askFor(asksPerSecond/patternAsks, "80/*.%d.test"), resource.VirtualHost, time.Second},
			{"more than fits", askFor(2*asksAtOnce, "80/%d.test"), resource.VirtualHost, 2 * asksAtOnce / asksPerSecond * time.Second},
			{"all clusters' endpoints", askFor(mostAsked, "outbound|80||%d.test"), resource.Endpoints, 0},
			{"a second's worth more of them", askFor(othersPerSecond, "outbound|80||%d.test"), resource.Endpoints, time.Second},
		} {
			if got := took(c.req, c.of); got != c.want {
				t.Errorf("%s waited for %s, not %s", c.what, got, c.want)
			}
		}
		time.Sleep(time.Hour) // the bubble's clock
		if got := took(askFor(asksAtOnce, "80/%d.test"), resource.VirtualHost); got != 0 {
			t.Errorf("after an hour's rest it waited for %s", got)
		}
		done := make(chan struct{})
		close(done)
		began := time.Now()
		p.wait(askFor(asksAtOnce, "80/%d.test"), resource.VirtualHost, done)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a stream that ended was waited for, %s", waited)
		}
	})
}
