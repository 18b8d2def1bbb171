package tunnels

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// halfLab is a gateway that has half closed connections with a server, by their cookies.
type halfLab struct {
	*lab
	moved map[uint64]time.Time // when something moved in one last
}

func inHalf(t *testing.T, name string, test func(l *halfLab)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := &halfLab{&lab{kernel: map[netip.AddrPort]uint64{}, rest: map[netip.AddrPort]time.Duration{}}, map[uint64]time.Time{}}
			l.Table = New(Config{Log: slog.New(slog.DiscardHandler), Most: mostPlaces, Kernel: l, Ender: l, Half: l.half})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { l.RunHalf(ctx); close(done) }()
			test(l)
			stop()
			<-done
		})
	})
}

func (l *halfLab) half(quiet time.Duration, each func(sockdiag.Activity)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for server, cookie := range l.kernel {
		if rests := time.Since(l.moved[cookie]); rests >= quiet {
			each(sockdiag.Activity{Connection: sockdiag.Connection{Local: gateway, Remote: server, Cookie: cookie}, Quiet: rests})
		}
	}
	return nil
}

// Activities: no client's connection counts here.
func (l *halfLab) Activities(func(sockdiag.Activity)) error { return nil }

// closes has one half closed, in which nothing has moved for so long already.
func (l *halfLab) closes(cookie uint64, quiet time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kernel[netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(cookie))] = cookie
	l.moved[cookie] = time.Now().Add(-quiet)
}

// pass lets time go by, and says which were ended.
func (l *halfLab) pass(d time.Duration) []uint64 {
	_, ended := l.since(d)
	return ended
}

// TestHalfClosedAreEnded: where the client has said all, a server may be silent for a quarter of an hour, and a minute while places are few and many are kept so.
func TestHalfClosedAreEnded(t *testing.T) {
	inHalf(t, "a server that never ends", func(l *halfLab) {
		l.closes(1, 0)
		want(t, "at first", l.pass(14*time.Minute))
		want(t, "after a quarter of an hour", l.pass(4*time.Minute), 1)
		if got := l.Stats().Half; got != 1 {
			t.Errorf("counted: %d", got)
		}
	})
	inHalf(t, "one that had rested for long before", func(l *halfLab) {
		l.closes(1, 50*time.Minute)
		want(t, "soon after it was half closed", l.pass(14*time.Minute))
	})
	inHalf(t, "one that says something now and then", func(l *halfLab) {
		for range 6 {
			l.closes(1, 0)
			want(t, "an answer takes long", l.pass(10*time.Minute))
		}
	})
	inHalf(t, "few places, and many are kept so", func(l *halfLab) {
		for i := range uint64(20) {
			l.closes(i+1, 0)
		}
		l.pass(3 * time.Minute)
		n, err := l.MakeRoom(t.Context(), 100, func(uint16) bool { return true })
		if got := l.pass(0); n != 5 || len(got) != 5 || err != nil {
			t.Errorf("ended: %v, it says %d (%v)", got, n, err)
		}
	})
	inHalf(t, "few places, and few are kept so", func(l *halfLab) {
		for i := range uint64(mostPlaces / roomPart) {
			l.closes(i+1, 0)
		}
		l.pass(3 * time.Minute)
		if n, err := l.MakeRoom(t.Context(), 100, func(uint16) bool { return true }); n != 0 || err != nil {
			t.Errorf("ended: %d (%v)", n, err)
		}
	})
	inHalf(t, "the oldest are ended first", func(l *halfLab) {
		for i := range uint64(20) {
			l.closes(i+1, 0)
			l.pass(time.Minute / 2)
		}
		l.pass(3 * time.Minute)
		if _, err := l.MakeRoom(t.Context(), 100, func(uint16) bool { return true }); err != nil {
			t.Error(err)
		}
		if got := l.pass(0); !slices.Equal(got, numbers(1, 5)) {
			t.Errorf("ended: %v", got)
		}
	})
}
