package tunnels

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

// silentLab is a gateway at whose port Envoy tells of requests.
type silentLab struct {
	t *testing.T
	*lab
	lost bool  // since the last question
	err  error // of that
}

func inSilence(t *testing.T, name string, test func(l *silentLab)) {
	t.Run(name, func(t *testing.T) {
		inLab(t, 100, func(t *testing.T, inner *lab) {
			l := &silentLab{t: t, lab: inner}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				l.RunSilent(ctx, func(context.Context) (bool, error) {
					l.mu.Lock()
					defer l.mu.Unlock()
					lost := l.lost
					l.lost = false
					return lost, l.err
				})
				close(done)
			}()
			test(l)
			stop()
			<-done
		})
	})
}

// listens has Envoy take the port's listener, which tells of requests, or does not.
func (l *silentLab) listens(is bool) {
	l.t.Helper()
	m := untold
	if is {
		m = tells
	}
	body, err := proto.Marshal(listenerAt(uint32(gateway.Port()), nil, chainOf(l.t, m)))
	if err != nil {
		l.t.Fatal(err)
	}
	l.Listens(Change{Type: listenerType, Names: []string{"port"}, Bodies: [][]byte{body}})
}

// rests has a connection, its number for a port and a cookie, in which nothing has moved for so long, and nothing will.
func (l *silentLab) rests(n uint16, quiet time.Duration) (client netip.AddrPort) {
	client = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kernel[client], l.rest[client] = uint64(n), quiet
	return client
}

// pass lets time go by, in which all rest on, and says which were ended.
func (l *silentLab) pass(d time.Duration) []uint64 {
	var all []uint64
	for ; d > 0; d -= time.Second {
		_, ended := l.since(time.Second)
		all = append(all, ended...)
		l.mu.Lock()
		for client := range l.rest {
			l.rest[client] += time.Second
		}
		l.mu.Unlock()
	}
	slices.Sort(all)
	return all
}

func (l *silentLab) want(what string, got []uint64, want ...uint64) {
	l.t.Helper()
	if !slices.Equal(got, want) {
		l.t.Errorf("%s: ended %v, want %v", what, got, want)
	}
}

// TestSilentAreEnded: who asks for nothing is gone after a quarter of a minute; who has asked for something, once, rests for as long as he likes.
func TestSilentAreEnded(t *testing.T) {
	inSilence(t, "who asked for nothing", func(l *silentLab) {
		l.listens(true)
		l.rests(1, 0)
		l.Spoke(l.rests(2, 0))
		l.want("at first", l.pass(11*time.Second))
		l.want("after a quarter of a minute", l.pass(4*time.Second), 1)
		l.want("later", l.pass(time.Hour))
		if got := l.Stats().Silent; got != 1 {
			t.Errorf("counted: %d", got)
		}
	})
	inSilence(t, "a port that is used again", func(l *silentLab) {
		l.listens(true)
		client := l.rests(1, 0)
		l.Spoke(client)
		l.want("rests", l.pass(time.Minute))
		l.mu.Lock()
		delete(l.kernel, client)
		l.mu.Unlock()
		l.want("is gone", l.pass(5*time.Second))
		l.rests(1, 0)
		l.want("another one", l.pass(15*time.Second), 1)
	})
	inSilence(t, "who is told of as it begins", func(l *silentLab) { // before the kernel was asked again
		l.listens(true)
		l.pass(10 * time.Second)
		client := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), 7)
		l.Spoke(client)
		l.rests(7, 0)
		l.want("rests", l.pass(time.Minute))
	})
	inSilence(t, "at other ports, and where nothing is told", func(l *silentLab) {
		l.listens(false)
		l.rests(1, 0)
		l.want("rests", l.pass(time.Hour))
	})
	inSilence(t, "where it is told from now on", func(l *silentLab) {
		l.listens(false)
		l.rests(1, 0) // may have a request under way that nobody will tell of
		l.pass(time.Minute)
		l.listens(true)
		l.want("who was there", l.pass(30*time.Second))
		l.rests(2, 0) // by a listener that is still the old one
		l.want("who comes soon", l.pass(2*time.Minute))
		l.rests(3, 0)
		l.want("who comes later", l.pass(15*time.Second), 3)
		l.listens(false)
		l.rests(4, 0)
		l.want("where it is not told any more", l.pass(time.Hour))
	})
	inSilence(t, "entries are lost", func(l *silentLab) {
		l.listens(true)
		l.rests(1, 0)
		l.mu.Lock()
		l.lost = true
		l.mu.Unlock()
		l.want("who may have been told of", l.pass(time.Hour))
		l.rests(2, 0)
		l.want("who comes later", l.pass(15*time.Second), 2)
	})
	inSilence(t, "Envoy does not say whether entries are lost", func(l *silentLab) {
		l.listens(true)
		l.rests(1, 0)
		l.mu.Lock()
		l.err = errors.New("it does not answer")
		l.mu.Unlock()
		l.want("meanwhile", l.pass(time.Minute))
		l.mu.Lock()
		l.err = nil
		l.mu.Unlock()
		l.want("then", l.pass(3*time.Second), 1)
	})
	inSilence(t, "nobody may end any", func(l *silentLab) {
		l.listens(true)
		l.rests(1, 0)
		l.mu.Lock()
		l.broken = 3
		l.mu.Unlock()
		l.want("at last", l.pass(30*time.Second), 1)
	})
}

// TestSilentWaitAfterAPause: a process that stood still has first to read what it was told meanwhile.
func TestSilentWaitAfterAPause(t *testing.T) {
	inSilence(t, "it stood still", func(l *silentLab) {
		l.listens(true)
		client := l.rests(1, time.Minute)
		l.mu.Lock()
		l.stalls = time.Minute
		l.mu.Unlock()
		l.want("meanwhile", l.pass(time.Minute+5*time.Second))
		l.Spoke(client)
		l.want("who was told of", l.pass(time.Hour))
	})
}

// TestNobodyIsRememberedForNothing: who has asked for something is remembered where somebody looks for those who did not, for as long as he is there, and never more of them than so many.
func TestNobodyIsRememberedForNothing(t *testing.T) {
	speak := func(l *silentLab, n int) {
		for i := range n {
			l.Spoke(netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}), 7))
		}
	}
	remembers := func(l *silentLab, what string, want int) {
		t.Helper()
		l.Table.mu.Lock()
		defer l.Table.mu.Unlock()
		if got := len(l.silent.spoke); got != want {
			t.Errorf("%s: %d are remembered, want %d", what, got, want)
		}
	}
	inSilence(t, "no port tells", func(l *silentLab) {
		speak(l, 10)
		remembers(l, "before any listener", 0)
		l.listens(false)
		speak(l, 10)
		remembers(l, "with one that tells nothing", 0)
		l.pass(time.Minute)
		l.listens(true)
		speak(l, 10)
		remembers(l, "with one that tells", 10)
		l.pass(10 * time.Second)
		remembers(l, "when they are gone", 0)
		speak(l, 10)
		l.listens(false)
		remembers(l, "where it is not told any more", 0)
	})
	t.Run("nobody ends any", func(t *testing.T) {
		l := &silentLab{t: t, lab: &lab{Table: New(Config{Most: 100})}}
		l.listens(true)
		speak(l, 10)
		remembers(l, "at a gateway that may end none", 0)
	})
	inSilence(t, "more than may be remembered", func(l *silentLab) {
		l.listens(true)
		l.rests(1, 0)
		l.pass(5 * time.Second)
		speak(l, 1<<16+10)
		l.Spoke(l.rests(2, 0))
		remembers(l, "at once", 1<<16)
		l.want("who may be among them", l.pass(time.Minute))
		remembers(l, "when all others are gone", 2)
		l.rests(3, 0)
		l.want("who comes later", l.pass(15*time.Second), 3)
	})
	inSilence(t, "the kernel says nothing", func(l *silentLab) {
		l.listens(true)
		l.mu.Lock()
		l.mute = true
		l.mu.Unlock()
		speak(l, 1<<16+10)
		l.Spoke(l.rests(1, time.Hour))
		l.pass(time.Minute)
		remembers(l, "meanwhile", 1<<16)
		l.mu.Lock()
		l.mute = false
		l.mu.Unlock()
		l.want("who asked meanwhile", l.pass(time.Minute))
		remembers(l, "then", 1)
	})
	inSilence(t, "it was not told yet", func(l *silentLab) { // the first entries may be read before it is known that Envoy has taken the listener
		l.Spoke(l.rests(1, 0))
		l.listens(true)
		l.want("who asked before", l.pass(time.Minute))
		l.rests(2, 0)
		l.want("who comes later", l.pass(15*time.Second), 2)
	})
}
