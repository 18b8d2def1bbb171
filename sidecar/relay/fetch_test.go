package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/ondemand"
)

// table is a route table whose unused rows stay for a while; 0 for one of which Envoy is given all rows.
func table(t *testing.T, name string, keep time.Duration) *discoveryv3.Resource {
	t.Helper()
	config := &routev3.RouteConfiguration{Name: name}
	if keep > 0 {
		values, err := structpb.NewStruct(map[string]any{ondemand.KeepMetadata: fmt.Sprint(int(keep.Seconds()))})
		if err != nil {
			t.Fatal(err)
		}
		config.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"sallyport": values}}
	}
	return packed(t, name, fmt.Sprint("keep-", keep), config)
}

// vhost is a row of TABLE/HOST.
func vhost(t *testing.T, name, version string, more ...string) *discoveryv3.Resource {
	t.Helper()
	_, host, _ := strings.Cut(name, "/")
	return packed(t, name, version, &routev3.VirtualHost{Name: name, Domains: append([]string{host}, more...)})
}

func packed(t *testing.T, name, version string, m proto.Message) *discoveryv3.Resource {
	t.Helper()
	body, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.Resource{Name: name, Version: version, Resource: body}
}

// fetching is an Envoy whose table 80 is fetched on use, with some rows.
type fetching struct {
	*bench
	clock time.Time
}

func newFetching(t *testing.T, dir string, rows ...*discoveryv3.Resource) *fetching {
	t.Helper()
	f := &fetching{bench: newBench(t, dir), clock: time.Unix(1_000_000, 0)}
	f.now = func() time.Time { return f.clock }
	f.restore()
	f.controllerOpen()
	f.subscribe(RouteType, "80")
	f.controllerSays(RouteType, "r", nil, table(t, "80", time.Hour))
	f.ack(RouteType)
	f.subscribe(VirtualHost)
	f.controllerSays(VirtualHost, "v", nil, append(rows, vhost(t, "80/"+ondemand.FirstRow, "1"))...)
	f.ack(VirtualHost)
	f.sent()
	f.told()
	return f
}

// uses has a name used, and gives who waits.
func (f *fetching) uses(host string) *use { return f.use(f.rows.find("80", host)) }

func (f *fetching) given() string {
	var out []string
	for name := range f.kind(VirtualHost).has {
		if !strings.HasSuffix(name, ondemand.FirstRow) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func answered(u *use) string {
	select {
	case err := <-u.done:
		return fmt.Sprint(err)
	default:
		return "waits"
	}
}

func TestGivesWhatIsUsed(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "1", "240.240.0.1"), vhost(t, "80/b.test", "1"))
	f.want("given before anything is used", f.given(), "")
	f.want("on disk", f.kept(VirtualHost), "80/a.test@1 80/b.test@1 80/nobody.invalid@1")

	first, second := f.uses("a.test"), f.uses("240.240.0.1")
	f.want("sent once for two", f.sent(), []string{"+80/a.test@1"})
	f.want("while Envoy has not said a word", answered(first)+" "+answered(second), "waits waits")
	f.ack(VirtualHost)
	f.want("with Envoy's word", answered(first)+" "+answered(second), "<nil> <nil>")
	f.want("used again", answered(f.uses("a.test")), "<nil>")
	f.want("what nobody registered", answered(f.uses("none.test")), "<nil>")
	f.want("nothing more is sent", f.sent(), []string(nil))
	f.want("nothing of this is the controller's", f.told(), []string(nil))
}

func TestFollowsWhatIsUsedOnly(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "1"), vhost(t, "80/b.test", "1"))
	f.uses("a.test")
	f.ack(VirtualHost)
	f.sent()

	f.controllerSays(VirtualHost, "n1", nil, vhost(t, "80/b.test", "2"), vhost(t, "80/c.test", "1"))
	f.want("changes of what is not used", f.sent(), []string(nil))
	f.want("are acknowledged, since they are kept", f.told(), []string{"VirtualHost ack n1"})
	f.controllerSays(VirtualHost, "n2", nil, vhost(t, "80/a.test", "2"), vhost(t, "80/b.test", "3"))
	f.want("of what is used", f.sent(), []string{"+80/a.test@2"})
	f.want("are acknowledged with Envoy's word", f.told(), []string(nil))
	f.ack(VirtualHost)
	f.want("then", f.told(), []string{"VirtualHost ack n2"})
	f.want("kept", f.kept(VirtualHost), "80/a.test@2 80/b.test@3 80/c.test@1 80/nobody.invalid@1")

	f.controllerSays(VirtualHost, "n3", []string{"80/a.test", "80/b.test"})
	f.want("removed", f.sent(), []string{"-80/a.test"})
	f.ack(VirtualHost)
	f.want("kept after", f.kept(VirtualHost), "80/c.test@1 80/nobody.invalid@1")
	f.want("a host that is gone is nobody's", answered(f.uses("a.test")), "<nil>")
}

// TestPatternsHideNothing: a pattern's row takes what is below it, so what is registered below it goes with it.
func TestPatternsHideNothing(t *testing.T) {
	f := newFetching(t, t.TempDir(),
		vhost(t, "80/*.wild.test", "1"), vhost(t, "80/a.wild.test", "1"), vhost(t, "80/*.deep.wild.test", "1"), vhost(t, "80/wild.test", "1"), vhost(t, "443/b.wild.test", "1"))
	f.uses("a.wild.test")
	f.want("a host needs no pattern", f.sent(), []string{"+80/a.wild.test@1"})
	f.ack(VirtualHost)
	f.uses("x.wild.test")
	f.ack(VirtualHost)
	f.want("with the pattern", f.given(), "80/*.deep.wild.test 80/*.wild.test 80/a.wild.test")
	f.controllerSays(VirtualHost, "n", nil, vhost(t, "80/new.wild.test", "1"), vhost(t, "80/other.test", "1", "alias.wild.test"), vhost(t, "80/far.test", "1"))
	f.ack(VirtualHost)
	f.want("and what comes below it", f.given(), "80/*.deep.wild.test 80/*.wild.test 80/a.wild.test 80/new.wild.test 80/other.test")

	f.controllerSays(VirtualHost, "m", []string{"80/*.wild.test"})
	f.ack(VirtualHost)
	f.sweep()
	f.ack(VirtualHost)
	f.want("without the pattern", f.given(), "80/a.wild.test")
}

// TestLongHosts: a host that is longer than any can be, which a request may say, is looked for by what patterns there can be, and no further.
func TestLongHosts(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/*.wild.test", "1"), vhost(t, "80/*."+strings.Repeat("a.", 120)+"deep.test", "1"))
	long, bytes := strings.Repeat("a.", 30<<10), 0
	for pattern := range patternsOver(long + "wild.test") {
		bytes += len(pattern)
	}
	if most := 64 << 10; bytes > most {
		t.Errorf("patterns of %d bytes are looked for, at most %d", bytes, most)
	}
	for _, host := range []string{long + "wild.test", "x.wild.test", long + "deep.test", strings.Repeat("a.", 121) + "deep.test"} {
		if found := f.rows.find("80", host); len(found) != 1 {
			t.Errorf("a host of %d bytes: %d rows", len(host), len(found))
		}
	}
}

func TestUnusedLeavesAndComesBack(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "1"), vhost(t, "80/b.test", "1"), vhost(t, "80/*.w.test", "1"), vhost(t, "80/c.w.test", "1"))
	for _, host := range []string{"a.test", "b.test", "x.w.test"} {
		f.uses(host)
	}
	f.ack(VirtualHost)
	f.clock = f.clock.Add(50 * time.Minute)
	for _, is := range f.rows.find("80", "b.test") {
		is.touch(f.clock)
	}
	f.sent()
	f.sweep()
	f.want("within the hour", f.sent(), []string(nil))
	f.clock = f.clock.Add(20 * time.Minute)
	f.sweep()
	f.want("after it", f.sent(), []string{"-80/*.w.test -80/a.test -80/c.w.test"})
	f.ack(VirtualHost)
	f.want("what left is still on disk", f.kept(VirtualHost), "80/*.w.test@1 80/a.test@1 80/b.test@1 80/c.w.test@1 80/nobody.invalid@1")

	back := f.uses("a.test")
	f.want("used again", f.sent(), []string{"+80/a.test@1"})
	f.ack(VirtualHost)
	f.want("it is back", answered(back), "<nil>")
}

// TestWhatIsOpenStays: what is used all the time stays, and so does what somebody has open.
func TestWhatIsOpenStays(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/logged.test", "1"), vhost(t, "80/open.test", "1"), vhost(t, "80/unused.test", "1"))
	for _, host := range []string{"logged.test", "open.test", "unused.test"} {
		f.uses(host)
		f.ack(VirtualHost)
	}
	asked := 0
	f.open = func(each func(table, host string)) {
		asked++
		each("", "open.test")
		each("443", "unused.test")
		each("80", "none.test")
	}
	f.sent()
	f.sweep()
	f.want("asked what is open while nothing is due", asked, 0)
	for range 3 {
		f.clock = f.clock.Add(50 * time.Minute)
		f.rows.find("80", "logged.test")[0].touch(f.clock)
		f.sweep()
	}
	f.want("after two hours and a half", f.given(), "80/logged.test 80/open.test")
	f.want("what left", f.sent(), []string{"-80/unused.test"})
}

// TestUsedSurvives: an agent that begins again knows what was in use, and believes Envoy about what it has.
func TestUsedSurvives(t *testing.T) {
	dir := t.TempDir()
	f := newFetching(t, dir, vhost(t, "80/a.test", "1"), vhost(t, "80/b.test", "1"), vhost(t, "80/c.test", "1"))
	f.uses("a.test")
	f.ack(VirtualHost)
	if err := f.store.Flush(); err != nil {
		t.Fatal(err)
	}

	again := &fetching{bench: newBench(t, dir), clock: f.clock}
	again.now = f.now
	again.restore()
	again.stopWaiting() // no controller
	again.subscribe(RouteType, "80")
	again.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: VirtualHost, InitialResourceVersions: map[string]string{"80/b.test": "1"}})
	again.want("sent from disk", again.sent(), []string{"+80@keep-1h0m0s", "+80/a.test@1 +80/nobody.invalid@1"})
	again.ack(VirtualHost)
	again.want("what Envoy has is in use, and there", answered(again.uses("b.test")), "<nil>")
	fresh := again.uses("c.test")
	again.want("a host that was never used", again.sent(), []string{"+80/c.test@1"})
	again.ack(VirtualHost)
	again.want("works without the controller", answered(fresh), "<nil>")
}

func TestRefusedIsNotThere(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "bad"))
	u := f.uses("a.test")
	f.sent()
	f.nack(VirtualHost, "no such thing")
	f.want("the one who waits", answered(u), "80/a.test: Envoy refused it: no such thing")
	f.want("the next one", answered(f.uses("a.test")), "80/a.test: Envoy refused it: no such thing")
	f.want("it is not sent again", f.sent(), []string(nil))
	f.controllerSays(VirtualHost, "n", nil, vhost(t, "80/a.test", "good"))
	f.want("a better version is", f.sent(), []string{"+80/a.test@good"})
	f.ack(VirtualHost)
	f.want("and is there", answered(f.uses("a.test")), "<nil>")
	f.controllerSays(VirtualHost, "o", nil, vhost(t, "80/a.test", "worse"))
	f.nack(VirtualHost, "no such thing")
	f.want("the one that Envoy keeps is, too", answered(f.uses("a.test")), "<nil>")
}

// TestEnvoyThatBegins: who uses something while no Envoy has asked yet waits for it.
func TestEnvoyThatBegins(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "1"))
	f.envoyGone()
	u, impatient := f.uses("a.test"), f.uses("a.test")
	f.want("without Envoy", answered(u), "waits")
	f.giveUp(impatient)
	if len(f.machine.uses) != 1 {
		t.Errorf("%d wait, one has given up", len(f.machine.uses)-1)
	}
	f.stopWaiting()
	f.subscribe(RouteType, "80")
	f.subscribe(VirtualHost)
	f.ack(VirtualHost)
	f.want("with the next one", answered(u), "<nil>")
}

// TestTableThatNeedsAll: before Envoy has a table that asks for nothing, it has all of its rows.
func TestTableThatNeedsAll(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "1"), vhost(t, "80/b.test", "1"))
	f.uses("a.test")
	f.ack(VirtualHost)
	f.sent()
	f.controllerSays(RouteType, "n", nil, table(t, "80", 0))
	f.want("the rows, then the table", f.sent(), []string{"+80/b.test@1", "+80@keep-0s"})
	f.ack(VirtualHost)
	f.controllerSays(VirtualHost, "m", nil, vhost(t, "80/c.test", "1"))
	f.want("what comes later", f.sent(), []string{"+80/c.test@1"})
}

// TestTableThatBegins: what Envoy has when a table begins to ask stays until it is not used.
func TestTableThatBegins(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "1"))
	f.controllerSays(RouteType, "n", nil, table(t, "80", 0))
	f.ack(VirtualHost)
	f.sent()
	f.want("all", f.given(), "80/a.test")
	f.controllerSays(RouteType, "m", nil, table(t, "80", time.Hour))
	f.controllerSays(VirtualHost, "o", nil, vhost(t, "80/b.test", "1"))
	f.want("what it had, and no more", f.given(), "80/a.test")
	f.clock = f.clock.Add(2 * time.Hour)
	f.sweep()
	f.want("after a while", f.given(), "")
}

// TestUnknownIsClosed: of a table of which the agent knows nothing it says nothing.
func TestUnknownIsClosed(t *testing.T) {
	f := newFetching(t, t.TempDir(), vhost(t, "80/a.test", "1"))
	r := &Relay{machine: f.machine}
	for _, table := range []string{"81", ""} {
		if err := r.Use(context.Background(), table, "none.test"); err == nil {
			t.Errorf("table %q: whatever was asked for is said to be there", table)
		}
	}
	if err := r.Use(context.Background(), "80", "none.test"); err != nil {
		t.Error(err)
	}
	empty := newBench(t, t.TempDir())
	empty.controllerOpen()
	empty.subscribe(RouteType, "80")
	empty.controllerSays(RouteType, "r", nil, table(t, "80", time.Hour))
	if err := (&Relay{machine: empty.machine}).Use(context.Background(), "80", "a.test"); err == nil {
		t.Error("before the rows have come, a host is said to be nobody's")
	}
}

func TestFind(t *testing.T) {
	r := newRows()
	for _, name := range []string{"80/a.x.test", "80/*.x.test", "443/*.x.test", "443/*.a.x.test", "443/*.test", "7001/a.x.test"} {
		r.put(vhost(t, name, "1"))
	}
	for _, c := range []struct{ table, host, want string }{
		{"80", "a.x.test", "80/a.x.test"}, {"443", "a.x.test", "443/*.x.test"}, {"443", "b.a.x.test", "443/*.a.x.test"}, {"443", "x.test", "443/*.test"},
		{"80", "x.test", ""}, {"80", "*.x.test", "80/*.x.test"}, {"8", "a.x.test", ""}, {"80", "", ""}, {"443", "240.240.0.1", ""},
		{"", "a.x.test", "443/*.x.test 7001/a.x.test 80/a.x.test"}, {"", "y.test", "443/*.test"}, {"", "[2001:2::1]", ""},
	} {
		var got []string
		for _, is := range r.find(c.table, c.host) {
			got = append(got, is.name)
		}
		if slices.Sort(got); strings.Join(got, " ") != c.want {
			t.Errorf("%q in table %q leads to %v, want %s", c.host, c.table, got, c.want)
		}
	}
}
