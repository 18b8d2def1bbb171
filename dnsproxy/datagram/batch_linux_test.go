package datagram

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// TestRoomIsThereWhileItIsNeeded: of a node's many sockets, which wait nearly always, those that wait hold no room for datagrams. One that serves many keeps its own.
func TestRoomIsThereWhileItIsNeeded(t *testing.T) {
	for size, keeps := range map[int]bool{Small: false, Size: true} {
		s, b := listenBy(t, size, "udp4", "127.0.0.1:0")
		if (b.room != nil) != keeps {
			t.Errorf("%d at a time: there is room before any question: %v", size, !keeps)
		}
		fmt.Fprint(dial(t, s, "127.0.0.1"), "a")
		if n, err := b.Read(); n != 1 || err != nil || string(b.Question(0).Message) != "a" {
			t.Fatal(n, err)
		}
		waits := func() {
			if err := s.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		waits()
		for until := time.Now().Add(time.Minute); !keeps && b.room != nil && time.Now().Before(until); { // a deadline may have passed before it looked
			waits()
		}
		if (b.room != nil) != keeps {
			t.Errorf("%d at a time: there is room while it waits: %v", size, !keeps)
		}
	}
}
