package presence

import (
	"context"
	"fmt"
	"net"

	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var noon = time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)

func id(n int) string { return fmt.Sprintf("sidecar~10.0.0.1~app-%05d.shop~shop.svc.cluster.local", n) }

// TestRegister: who is connected to any controller, since when, and for how long that is known.
func TestRegister(t *testing.T) {
	hand := clock.At(noon)
	r := New(hand.Now)
	wants := func(what string, some bool, want ...Proxy) {
		t.Helper()
		got, known := r.Connected()
		if known != some || len(got) != len(want) || len(want) > 0 && !cmp.Equal(got, want) || some && got == nil {
			t.Errorf("%s: %v %t, want %v %t", what, got, known, want, some)
		}
	}
	wants("nobody told", false)
	r.tell("a", nil)
	wants("nobody is connected", true)
	created := noon.Add(-24 * time.Hour)
	r.tell("a", []Proxy{{ID: id(2)}, {ID: id(1), Since: created}})
	hand.Set(noon.Add(time.Minute))
	r.tell("b", []Proxy{{ID: id(3)}, {ID: id(2)}})
	wants("of two controllers", true, Proxy{id(1), created}, Proxy{id(2), noon}, Proxy{id(3), hand.Now()})
	r.tell("a", []Proxy{{ID: id(1)}})
	r.tell("b", nil)
	wants("two went", true, Proxy{id(1), created})
	hand.Set(noon.Add(10 * time.Minute))
	wants("what was told is too old", false)
	r.tell("a", []Proxy{{ID: id(2)}, {ID: id(1)}})
	wants("they are back", true, Proxy{id(1), created}, Proxy{id(2), noon})
	hand.Set(noon.Add(time.Hour))
	r.tell("a", []Proxy{{ID: id(2)}})
	wants("it was away for long", true, Proxy{id(2), hand.Now()})
}

// dial is a connection to services of a register.
func dial(t *testing.T, register ...interface{ Register(grpc.ServiceRegistrar) }) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer()
	for _, service := range register {
		service.Register(s)
	}
	done := make(chan struct{})
	go func() { _ = s.Serve(l); close(done) }()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); s.Stop(); <-done })
	return conn
}

// TestTold: what a controller tells is what is answered, and told to the other server, however many they are.
func TestTold(t *testing.T) {
	first, second := New(nil), New(nil)
	other := dial(t, NewService(second, nil))
	conn := dial(t, NewAnswers(first), NewService(first, func(ctx context.Context, controller string, proxies []Proxy) {
		if err := Tell(ctx, other, controller, proxies); err != nil {
			t.Error(err)
		}
	}))
	if _, some, err := Ask(t.Context(), conn); err != nil || some {
		t.Errorf("nobody told: %t, %v", some, err)
	}
	var all []Proxy
	for n := range 2*perMessage + 1 {
		all = append(all, Proxy{ID: id(n), Since: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)})
	}
	for _, list := range [][]Proxy{all, nil, all[:1]} {
		if err := Tell(t.Context(), conn, "c", list); err != nil {
			t.Fatal(err)
		}
		got, some, err := Ask(t.Context(), conn)
		if err != nil || !some || len(got) != len(list) || len(list) > 0 && !cmp.Equal(got, list) {
			t.Errorf("%d of %d, %t, %v", len(got), len(list), some, err)
		}
		if got, _ := second.Connected(); len(got) != len(list) {
			t.Errorf("the other server has %d of %d", len(got), len(list))
		}
	}
}

// TestRefused: what is no list changes nothing, and a server that does not know the question says so.
func TestRefused(t *testing.T) {
	r := New(nil)
	r.tell("c", []Proxy{{ID: id(1)}})
	conn := dial(t, NewService(r, nil))
	for _, wrong := range [][]Proxy{{{ID: ""}}, {{ID: "a b"}}, {{ID: "\x1b[31m"}}, {{ID: strings.Repeat("x", maxID+1)}}, {{ID: id(2)}, {ID: "ünï"}}} {
		if err := Tell(t.Context(), conn, "c", wrong); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	if err := Tell(t.Context(), conn, "", nil); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	if err := Tell(t.Context(), conn, "c", make([]Proxy, maxProxies+1)); status.Code(err) == codes.OK {
		t.Error("there is no end of it")
	}
	for n := 1; n < maxControllers; n++ {
		r.tell(fmt.Sprint("c", n), nil)
	}
	if err := Tell(t.Context(), conn, "one-more", nil); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	if got, _ := r.Connected(); len(got) != 1 || got[0].ID != id(1) {
		t.Errorf("%v", got)
	}
	if _, _, err := Ask(t.Context(), conn); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	if err := Tell(t.Context(), dial(t), "c", nil); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}
