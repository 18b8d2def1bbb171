package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestEmptied: when the CNI plugin has heard that a pod is let go, no connection is left in its network, though its ends are held; before the runtime takes its cable away, so
// that whoever is at the other end is told.
func TestEmptied(t *testing.T) {
	p, l := podsWith(t)
	var client, server net.Conn
	made, enough := make(chan error, 1), make(chan struct{})
	defer close(enough)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, and its network, end with this
		made <- func() (err error) {
			if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			lo, err := netlink.LinkByName("lo")
			if err == nil {
				err = netlink.LinkSetUp(lo)
			}
			if err != nil {
				return err
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			if client, err = net.Dial("tcp", listener.Addr().String()); err == nil {
				server, err = listener.Accept()
			}
			l.Network = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
			return errors.Join(err, listener.Close())
		}()
		<-enough
	}()
	if err := <-made; errors.Is(err, unix.EPERM) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	path, err := link(p.path("networks"), l)
	if err != nil {
		t.Fatal(err)
	}
	s := *p.served[l.Key()]
	s.local, s.network = l, path
	p.local[l.Key()], p.served[l.Key()] = l, &s
	if err := p.write(l); err != nil {
		t.Fatal(err)
	}
	if err := p.removeAndEmpty(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"client": client, "server": server} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ECONNABORTED) {
			t.Errorf("the %s sees %v, want a reset", name, err)
		}
		_ = c.Close()
	}
	if begin, _, end := p.differs(); len(begin) != 0 || len(end) != 1 || !end[0].gone {
		t.Errorf("begin %v, end %v", begin, end)
	}
}
