package relay

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/ondemand"
)

// named is an Envoy whose table 80 is fetched by name.
type named struct {
	*fetching
	t       *testing.T
	keys    map[string]bool
	echoing bool // the controller is none of those that were before ondemand.Echo
}

// named80 is the table.
func named80(t *testing.T, echoing bool) *discoveryv3.Resource {
	t.Helper()
	config := &routev3.RouteConfiguration{}
	is := table(t, "80", time.Hour)
	if err := is.GetResource().UnmarshalTo(config); err != nil {
		t.Fatal(err)
	}
	fields := config.GetMetadata().GetFilterMetadata()["sallyport"].GetFields()
	fields[ondemand.ByNameMetadata] = fields[ondemand.KeepMetadata]
	if echoing {
		fields[ondemand.EchoMetadata] = fields[ondemand.KeepMetadata]
	}
	return packed(t, "80", "named", config)
}

// there tells the agent by the digest that these are there, TABLE/DOMAIN, and no others.
func (n *named) there(names ...string) {
	n.t.Helper()
	buckets, sum := map[string][]uint64{}, uint64(0)
	for _, name := range names {
		table, domain, _ := strings.Cut(name, "/")
		key := digest.KeyOf(table, domain)
		buckets[digest.BucketName(key.Bucket)] = append(buckets[digest.BucketName(key.Bucket)], key.Value)
	}
	var all []*discoveryv3.Resource
	var gone []string
	for name := range n.keys {
		if buckets[name] == nil {
			gone = append(gone, name)
			delete(n.keys, name)
		}
	}
	put := func(name string, body []byte) {
		r := res(name, "")
		r.Resource.Value, r.Version = body, strconv.FormatUint(digest.Mark(name, body), 16)
		all = append(all, r)
	}
	for name, values := range buckets {
		body := digest.Encode(values)
		sum ^= digest.Mark(name, body)
		n.keys[name] = true
		put(name, body)
	}
	put(digest.SumName, digest.Sum(sum))
	n.controllerSays(digest.Type, "d", gone, all...)
	n.told()
}

func newNamed(t *testing.T, dir string) *named {
	t.Helper()
	set := &digest.Set{}
	n := &named{fetching: &fetching{bench: newBench(t, dir, digestWatch(set)), clock: time.Unix(1_000_000, 0)}, t: t, keys: map[string]bool{}}
	n.digest, n.now, n.lost = set, func() time.Time { return n.clock }, n.clock
	n.restore()
	return n
}

func (n *named) begin() {
	n.controllerOpen()
	n.told()
	n.there("80/a.test", "80/b.test", "80/240.240.0.1", "80/*.wild.test", "80/in.wild.test")
	n.subscribe(RouteType, "80")
	n.controllerSays(RouteType, "r", nil, named80(n.t, n.echoing))
	n.ack(RouteType)
	n.subscribe(VirtualHost)
	n.sent()
}

// asks is what the controller is asked for a host of table 80, and who waits for that; nil where nothing has to be asked.
func (n *named) asks(hosts ...string) *ask {
	names := n.rows.lacks("80", hosts)
	if len(names) == 0 {
		return nil
	}
	return n.askAbout(names)
}

func (a *ask) answeredNow() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func TestAsksByName(t *testing.T) {
	n := newNamed(t, t.TempDir())
	n.begin()
	n.want("the first request is for the row that all have", n.told()[2:], []string{"VirtualHost +80/nobody.invalid"})
	n.controllerSays(VirtualHost, "v", nil, vhost(t, "80/nobody.invalid", "1"))
	n.ack(VirtualHost)
	n.told()
	n.sent()

	if n.asks("none.test") != nil {
		t.Error("what the digest says nothing of is asked for")
	}
	a := n.asks("a.test")
	n.want("asked", n.told(), []string{"VirtualHost +80/a.test"})
	n.controllerSays(VirtualHost, "w", nil, vhost(t, "80/a.test", "1", "240.240.0.1"))
	if !a.answeredNow() || n.asks("a.test", "240.240.0.1") != nil {
		t.Error("it came, and is still asked for")
	}
	n.want("nothing goes to Envoy that is not used", n.sent(), []string(nil))
	u := n.uses("a.test")
	n.want("then it does", n.sent(), []string{"+80/a.test@1"})
	n.ack(VirtualHost)
	n.want("and Envoy has it", answered(u), "<nil>")
	n.told()

	n.clock = n.clock.Add(2 * time.Hour)
	n.sweep()
	n.want("unused, it goes", n.sent(), []string{"-80/a.test"})
	n.want("and is followed no more", n.told(), []string{"VirtualHost -80/a.test"})
	n.want("nor kept", n.kept(VirtualHost), "80/nobody.invalid@1")
	n.ack(VirtualHost)

	n.asks("240.240.0.1")
	n.want("asked by its address", n.told(), []string{"VirtualHost +80/240.240.0.1"})
	n.controllerSays(VirtualHost, "x", nil, vhost(t, "80/a.test", "1", "240.240.0.1"))
	n.want("it is followed by its name", n.told(), []string{"VirtualHost +80/a.test", "VirtualHost -80/240.240.0.1", "VirtualHost ack x"})

	b := n.asks("b.test")
	n.told()
	n.controllerSays(VirtualHost, "y", []string{"80/b.test"})
	if !b.answeredNow() || n.asks("b.test") != nil {
		t.Error("what the digest took for something, and is nothing, is asked for again")
	}
	n.told()
	n.controllerSays(VirtualHost, "z", nil, vhost(t, "80/b.test", "1"))
	n.want("it comes after all", n.rows.find("80", "b.test")[0].name, "80/b.test")
}

func TestPatternsByName(t *testing.T) {
	n := newNamed(t, t.TempDir())
	n.begin()
	n.controllerSays(VirtualHost, "v", nil, vhost(t, "80/nobody.invalid", "1"))
	n.ack(VirtualHost)
	n.told()
	n.sent()
	n.asks("x.wild.test")
	n.want("asked", n.told(), []string{"VirtualHost +80/*.wild.test"})
	n.controllerSays(VirtualHost, "w", nil, vhost(t, "80/*.wild.test", "1"), vhost(t, "80/in.wild.test", "1"))
	n.want("with it comes what is below it", n.told(), []string{"VirtualHost +80/in.wild.test", "VirtualHost ack w"})
	if n.asks("x.wild.test", "y.wild.test", "in.wild.test") != nil {
		t.Error("what is below a pattern that is held is asked for")
	}
	n.uses("x.wild.test")
	n.want("given", n.sent(), []string{"+80/*.wild.test@1 +80/in.wild.test@1"})
}

// TestSlowControllerIsNotAway: who waits for no longer is told that the controller has not answered yet, and not that it is away: a name is answered then, since whoever comes early is held.
func TestSlowControllerIsNotAway(t *testing.T) {
	n := newNamed(t, t.TempDir())
	n.begin()
	n.controllerSays(VirtualHost, "v", nil, vhost(t, "80/nobody.invalid", "1"))
	n.ack(VirtualHost)
	r := &Relay{machine: n.machine, calls: make(chan func()), stopped: make(chan struct{})}
	ends := make(chan context.CancelFunc, 1)
	go func() {
		for f := range r.calls {
			f()
			select {
			case end := <-ends: // who waits is asked for by now, and waits no longer
				end()
			default:
			}
		}
	}()
	defer close(r.calls)
	for connected, want := range map[bool]error{true: errSlow, false: ErrAway} {
		n.connected, n.lost = connected, n.clock
		ctx, cancel := context.WithCancel(t.Context())
		ends <- cancel
		if err := r.Use(ctx, "80", "b.test"); !errors.Is(err, want) {
			t.Errorf("connected: %t: %v, want %v", connected, err, want)
		}
		cancel()
	}
}

// TestByNameAlone: without a controller the agent has what was used, and knows what nobody registered; of the rest it says that it does not know.
func TestByNameAlone(t *testing.T) {
	dir := t.TempDir()
	n := newNamed(t, dir)
	n.begin()
	n.controllerSays(VirtualHost, "v", nil, vhost(t, "80/nobody.invalid", "1"), vhost(t, "80/a.test", "1"))
	n.uses("a.test")
	n.ack(VirtualHost)
	if err := n.store.Flush(); err != nil {
		t.Fatal(err)
	}
	again := newNamed(t, dir)
	again.stopWaiting()
	again.subscribe(RouteType, "80")
	again.subscribe(VirtualHost)
	again.want("from disk", again.sent(), []string{"+80@named", "+80/a.test@1 +80/nobody.invalid@1"})
	again.ack(VirtualHost)
	again.clock = again.clock.Add(awayAfter)
	r := &Relay{machine: again.machine, calls: make(chan func()), stopped: make(chan struct{})}
	go func() {
		for f := range r.calls {
			f()
		}
	}()
	defer close(r.calls)
	for host, want := range map[string]error{"a.test": nil, "none.test": nil, "b.test": ErrAway} {
		if err := r.Use(context.Background(), "80", host); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", host, err, want)
		}
	}
	if len(again.kind(VirtualHost).byName) != 2 || len(again.asking) != 0 {
		t.Errorf("it goes on asking for %v", again.kind(VirtualHost).byName)
	}

	torn := newNamed(t, dir)
	torn.kind(digest.Type).table.Remove(digest.BucketName(digest.KeyOf("80", "b.test").Bucket))
	torn.digest.Remove(digest.BucketName(digest.KeyOf("80", "b.test").Bucket))
	if err := (&Relay{machine: torn.machine}).Use(context.Background(), "80", "none.test"); !errors.Is(err, errNotFetched) {
		t.Errorf("of a digest of which something is missing: %v", err)
	}
}

// TestAllAfterNamesIsTheAnswerToThat: what is under way of what was asked for by name, or of an earlier question for all, is not taken for all rows.
func TestAllAfterNamesIsTheAnswerToThat(t *testing.T) {
	n := newNamed(t, t.TempDir())
	n.echoing = true
	n.begin()
	n.controllerSays(VirtualHost, "v", nil, vhost(t, "80/nobody.invalid", "1"))
	n.ack(VirtualHost)
	n.asks("a.test")
	n.told()
	n.sent()
	n.controllerSays(RouteType, "s", nil, table(t, "80", 0))
	n.want("for all rows", n.told(), []string{"VirtualHost +* +echo/1"})
	n.controllerSays(VirtualHost, "w", nil, vhost(t, "80/a.test", "1"))
	n.want("what was asked for by name came, and the table waits", n.sent(), []string(nil))
	n.told()

	n.controllerGone()
	n.controllerOpen()
	n.told()
	n.controllerSays(RouteType, "t", nil, named80(t, true))
	n.controllerSays(VirtualHost, "x", nil, vhost(t, "80/b.test", "1"))
	n.told()
	n.sent()
	n.controllerSays(RouteType, "u", nil, table(t, "80", 0))
	n.want("once more", n.told(), []string{"VirtualHost +* +echo/2"})
	n.controllerSays(VirtualHost, "y", []string{"echo/1"}, vhost(t, "80/b.test", "2"))
	if n.rows.complete.Load() {
		t.Error("the answer to an earlier question is taken for the one to this")
	}
	n.told()
	n.controllerSays(VirtualHost, "z", []string{"echo/2"}, vhost(t, "80/c.test", "1"))
	if len(n.tables) > 0 {
		t.Error("all rows are here, and the table still waits")
	}
	n.told()
	n.controllerSays(RouteType, "q", nil, named80(t, true))
	if told := n.told(); len(told) == 0 || !strings.HasSuffix(told[0], " -* -echo/2") {
		t.Errorf("the echo is asked for still: %v", told)
	}
}

// TestTableThatNeedsAllAfterNames: Envoy has all rows before it has a table that asks for none, though the agent has to ask for them first.
func TestTableThatNeedsAllAfterNames(t *testing.T) {
	n := newNamed(t, t.TempDir())
	n.begin()
	n.controllerSays(VirtualHost, "v", nil, vhost(t, "80/nobody.invalid", "1"))
	n.ack(VirtualHost)
	n.told()
	n.sent()
	n.controllerSays(RouteType, "s", nil, table(t, "80", 0))
	n.want("the table waits", n.sent(), []string(nil))
	n.want("for all rows", n.told(), []string{"VirtualHost +*"})
	n.controllerSays(VirtualHost, "w", nil, vhost(t, "80/a.test", "1"), vhost(t, "80/b.test", "1"))
	n.want("which go first", n.sent(), []string{"+80/a.test@1 +80/b.test@1", "+80@keep-0s"})
	n.ack(VirtualHost)
	n.controllerSays(RouteType, "t", nil, named80(t, false))
	n.ack(RouteType)
	n.told()
	n.want("and back: what Envoy has is followed", len(n.kind(VirtualHost).byName), 3)
}
