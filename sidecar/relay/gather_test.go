package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestRowsAreGathered: what comes in use while Envoy owes its word comes in one answer, so that however many rows come in use at once, Envoy makes its table
// twice for them.
func TestRowsAreGathered(t *testing.T) {
	const hosts = 500
	rows := make([]*discoveryv3.Resource, hosts)
	for i := range rows {
		rows[i] = vhost(t, fmt.Sprintf("80/h%d.test", i), "1")
	}
	f := newFetching(t, t.TempDir(), rows...)
	waiting := make([]*use, hosts)
	answers := 0
	for i := range waiting {
		waiting[i] = f.uses(fmt.Sprintf("h%d.test", i))
		answers += len(f.sent())
	}
	f.want("answers before Envoy's word about the first", answers, 1)
	f.ack(VirtualHost)
	f.want("the one that waited for it", answered(waiting[0]), "<nil>")
	f.want("the others", answered(waiting[1])+" "+answered(waiting[hosts-1]), "waits waits")
	all := f.sent()
	f.want("answers after it", len(all), 1)
	f.want("rows in that", strings.Count(all[0], "+"), hosts-1)
	f.ack(VirtualHost)
	for i, u := range waiting[1:] {
		f.want(fmt.Sprint("who waited for ", i+1), answered(u), "<nil>")
	}
	f.want("more answers", f.sent(), []string(nil))
}

// TestPatternIsGatheredWithWhatIsBelow: a pattern's row never comes before what it would hide.
func TestPatternIsGatheredWithWhatIsBelow(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/first.test", "1"), vhost(t, "80/*.w.test", "1"), vhost(t, "80/a.w.test", "1"))
	f.uses("first.test")
	u := f.uses("x.w.test")
	f.want("sent at once", f.sent(), []string{"+80/first.test@1"})
	f.controllerSays(VirtualHost, "n", nil, vhost(t, "80/new.w.test", "1"))
	f.want("what the controller says is not held up", f.sent(), []string{"+80/new.w.test@1"})
	f.ack(VirtualHost)
	f.want("then", f.sent(), []string{"+80/*.w.test@1 +80/a.w.test@1"})
	f.want("before Envoy's word", answered(u), "waits")
	f.ack(VirtualHost)
	f.want("after it", answered(u), "<nil>")
}

// TestGatheredMayGo: what is gathered and is not to be given after all is not, and who waits for it hears so.
func TestGatheredMayGo(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/first.test", "1"), vhost(t, "80/gone.test", "1"), vhost(t, "80/new.test", "1"), vhost(t, "80/unused.test", "1"))
	f.uses("first.test")
	gone, changed := f.uses("gone.test"), f.uses("new.test")
	f.uses("unused.test")
	f.sent()
	f.controllerSays(VirtualHost, "n", []string{"80/gone.test"}, vhost(t, "80/new.test", "2"))
	f.want("a change is sent as it comes", f.sent(), []string{"+80/new.test@2"})
	f.clock = f.clock.Add(time.Minute)
	for _, name := range []string{"first.test", "new.test"} {
		f.rows.find("80", name)[0].touch(f.clock.Add(time.Hour))
	}
	f.clock = f.clock.Add(time.Hour)
	f.sweep()
	f.ack(VirtualHost)
	f.want("nothing is left to be sent", f.sent(), []string(nil))
	f.want("what was removed", answered(gone), "80/gone.test: "+errGone.Error())
	f.want("what was changed", answered(changed), "<nil>")
}

// TestGatheredForAnEnvoyThatGoes: the next Envoy gets it with its first answer.
func TestGatheredForAnEnvoyThatGoes(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "1"), vhost(t, "80/b.test", "1"))
	f.uses("a.test")
	u := f.uses("b.test")
	f.envoyGone()
	f.want("between two", answered(u), "waits")
	f.sent()
	f.stopWaiting()
	f.subscribe(RouteType, "80")
	f.subscribe(VirtualHost)
	f.want("the next one", f.sent(), []string{"+80@keep-1h0m0s", "+80/a.test@1 +80/b.test@1 +80/nobody.invalid@1"})
	f.ack(VirtualHost)
	f.want("with its word", answered(u), "<nil>")
}

// TestGatheredIsRefused: one bad row among those that were gathered holds up none of the others for good.
func TestGatheredIsRefused(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/first.test", "1"), vhost(t, "80/bad.test", "1"), vhost(t, "80/good.test", "1"), vhost(t, "80/late.test", "1"))
	f.uses("first.test")
	bad, good := f.uses("bad.test"), f.uses("good.test")
	f.ack(VirtualHost)
	f.sent()
	f.nack(VirtualHost, "no such thing")
	f.want("the halves", f.sent(), []string{"+80/bad.test@1", "+80/good.test@1"})
	late := f.uses("late.test")
	f.nack(VirtualHost, "no such thing")
	f.want("while the other half is under way", f.sent(), []string(nil))
	f.ack(VirtualHost)
	f.want("what came meanwhile", f.sent(), []string{"+80/late.test@1"})
	f.ack(VirtualHost)
	f.want("all of them", answered(bad)+", "+answered(good)+", "+answered(late), "80/bad.test: Envoy refused it: no such thing, <nil>, <nil>")
}
