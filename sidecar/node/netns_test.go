package node

import (
	"net"
	"testing"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// TestListeningEitherWay: the kernel's diagnostics and /proc say the same of a port, open and closed.
func TestListeningEitherWay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // until then it is open
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	ways := map[string]func(func(uint16)) error{"diagnostics": sockdiag.Listening, "/proc": listeningInProc}
	for what, each := range ways {
		found := false
		if err := each(func(p uint16) { found = found || p == port }); err != nil || !found {
			t.Errorf("%s: found %t (%v)", what, found, err)
		}
	}
	if open, err := listening(port); err != nil || !open {
		t.Errorf("it is open: %t (%v)", open, err)
	}
	if open, err := listening(port, 1); err != nil || open {
		t.Errorf("with a port that is not: %t (%v)", open, err)
	}
}
