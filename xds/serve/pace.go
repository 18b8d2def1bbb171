package serve

import (
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/time/rate"

	"github.com/sallyport/sallyport/xds/resource"
)

// What is asked for by name is looked for while nobody else is served, and a pod decides what its agent asks for. So each stream may ask for so many, and of rows, which take longer, for
// fewer: what is beyond waits, and with it all else on that stream, until it may be asked. Nothing fails, and nobody else waits.

const (
	// asksAtOnce is how many names may be asked for at once: more than a pod uses, since an agent that comes back asks for all of them.
	asksAtOnce = 8192
	// asksPerSecond is how many more may be asked for each second.
	asksPerSecond = 256
	// patternAsks is as how many a pattern counts: the rows below it are looked for among all hosts.
	patternAsks = 16
	// othersPerSecond is how many names of other types may be asked for each second, after as many as one request may have.
	othersPerSecond = 4096
)

// pace is how fast a stream may ask by name. The zero value is ready.
type pace struct{ rows, others *rate.Limiter }

// wait returns when what a request asks for may be asked for, or done comes. It is called by the stream's own goroutine.
func (p *pace) wait(req *discovery.DeltaDiscoveryRequest, t resource.Type, done <-chan struct{}) {
	if t != resource.VirtualHost {
		waitFor(&p.others, len(req.GetResourceNamesSubscribe())+len(req.GetResourceNamesUnsubscribe()), othersPerSecond, mostAsked, done)
		return
	}
	asks := 0
	for _, name := range req.GetResourceNamesSubscribe() {
		if _, host, named := strings.Cut(name, "/"); named && strings.HasPrefix(host, "*.") {
			asks += patternAsks
		} else if named {
			asks++
		}
	}
	waitFor(&p.rows, asks, asksPerSecond, asksAtOnce, done)
}

// waitFor waits until there may be so many more.
func waitFor(l **rate.Limiter, asks int, perSecond rate.Limit, atOnce int, done <-chan struct{}) {
	if asks == 0 {
		return
	}
	if *l == nil {
		*l = rate.NewLimiter(perSecond, atOnce)
	}
	for asks > 0 {
		some := min(asks, atOnce)
		asks -= some
		delay := (*l).ReserveN(time.Now(), some).Delay()
		if delay == 0 {
			continue
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-done:
			timer.Stop()
			return
		}
	}
}
