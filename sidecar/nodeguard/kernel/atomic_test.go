package kernel

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// TestNoWindow: while the table is replaced and changed under traffic, nothing of a guarded pod gets out, and connections of
// the others go on.
func TestNoWindow(t *testing.T) {
	n := newNode(t, false)
	address := at(world.OutsideAddrs[0])
	server, err := n.Outside.ListenPacket(address)
	n.must(err)
	defer func() { _ = server.Close() }()
	n.serve(n.Outside, world.OutsideAddrs[1])
	guarded := plan(t, true, nil)
	more := plan(t, true, func(o *nodeguard.Options, v *nodeguard.View) {
		o.Allow = prefixes("172.16.0.0/12")
		v.Pods = append(v.Pods, nodeguard.Pod{Namespace: "shop", Name: "app-2", Addresses: addrs("10.77.0.99")})
	})
	n.must(n.table.Replace(guarded))

	from, ended := n.connect(n.App, "udp", address)
	if ended != "" {
		t.Fatal(ended)
	}
	open, ended := n.connect(n.Control, "tcp", at(world.OutsideAddrs[1]))
	if ended != "" {
		t.Fatal(ended)
	}
	var sending sync.WaitGroup
	stop := make(chan struct{})
	for _, c := range []net.Conn{from, from, from} {
		sending.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = c.Write([]byte("secret")) // an error is what the guard answers
				}
			}
		})
	}
	for range 40 {
		n.must(n.table.Replace(guarded))
		n.must(n.table.Change(nodeguard.Diff(guarded, more)))
		n.must(n.table.Change(nodeguard.Diff(more, guarded)))
		n.must(echo(open))
	}
	close(stop)
	sending.Wait()
	_, _ = from.Close(), open.Close()
	n.must(server.SetReadDeadline(time.Now().Add(100 * time.Millisecond)))
	if size, _, err := server.ReadFrom(make([]byte, 16)); err == nil {
		t.Errorf("%d bytes got out while the table changed", size)
	}
	counts, err := n.table.Counts()
	n.must(err)
	t.Logf("refused since the last replacement: %d packets", counts.Refused[world.AppAddr].Packets)
}
