package sockdiag

import (
	"errors"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inOwnNetwork does something in a network namespace that nobody else is in.
func inOwnNetwork(t *testing.T, do func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		defer close(ended)     // where do gives up the test
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		ended <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			lo, err := netlink.LinkByName("lo")
			if err == nil {
				err = netlink.LinkSetUp(lo)
			}
			return errors.Join(err, errorOf(err, do))
		}()
	}()
	switch err := <-ended; {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

func errorOf(before error, do func() error) error {
	if before != nil {
		return nil
	}
	return do()
}

// TestEndResting: what rests ends when it is seen a second time, what has something to send when all is to end; who is at the other end is told.
func TestEndResting(t *testing.T) {
	inOwnNetwork(t, func() error {
		rests, other := pair(t, "127.0.0.1:0")
		sends, reader := pair(t, "127.0.0.1:0")
		if err := errors.Join(sends.SetWriteBuffer(1<<20), reader.SetReadBuffer(1<<10)); err != nil {
			return err
		}
		if _, err := sends.Write(make([]byte, 256<<10)); err != nil {
			return err
		}
		seen, err := EndResting(nil, false)
		if err != nil {
			return err
		}
		if len(seen) != 4 {
			t.Errorf("%d connections at first, want 4", len(seen))
		}
		seen, err = EndResting(seen, false)
		if err != nil {
			return err
		}
		if got := sending(seen); got != 1 {
			t.Errorf("%d that send are left of %v, want 1", got, seen)
		}
		for name, c := range map[string]net.Conn{"a client that rests": rests, "its server": other} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ECONNABORTED) {
				t.Errorf("%s sees %v, want a reset", name, err)
			}
		}
		if seen, err = EndResting(seen, true); err != nil || len(seen) > 0 {
			t.Errorf("in the end %v are left (%v)", seen, err)
		}
		return nil
	})
}

func sending(left map[uint64]bool) (n int) {
	for _, sends := range left {
		if sends {
			n++
		}
	}
	return n
}
