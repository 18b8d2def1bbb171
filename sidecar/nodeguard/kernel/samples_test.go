package kernel

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/e2e/world"
)

func TestSamples(t *testing.T) {
	n := newNode(t, true)
	n.must(n.table.Replace(plan(t, true, nil)))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	samples, ended, listening := make(chan Sample, 64), make(chan error, 1), make(chan struct{})
	go func() {
		var c *netlink.Conn
		err := n.Router.Do(func() (err error) { c, err = dialSamples(); return err })
		close(listening)
		if err == nil {
			err = listen(ctx, c, func(s Sample) { samples <- s })
		}
		ended <- err
	}()
	<-listening
	for _, a := range out {
		for _, network := range []string{"tcp", "udp"} {
			n.exchangeOn(n.App, network, at(a))
		}
	}
	want := map[Sample]bool{}
	for i, a := range out {
		source := []netip.Addr{world.AppAddr, app6}[i]
		for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			want[Sample{Why: "guarded", Source: source, Destination: a, Protocol: protocol, Port: port}] = true
		}
	}
	for len(want) > 0 {
		select {
		case s := <-samples:
			if s.Destination.IsMulticast() || s.Destination.IsLinkLocalUnicast() {
				t.Errorf("neighbours were refused: %+v", s)
			}
			delete(want, s)
		case err := <-ended:
			t.Fatalf("%v; still wanted: %v", err, want)
		case <-t.Context().Done():
			t.Fatalf("still wanted: %v", want)
		}
	}
	end()
	n.must(<-ended)
}

// exchangeOn sends something; what comes of it is the guard's to say, of some it is nothing.
func (n *node) exchangeOn(from *world.Host, network, address string) {
	if network == "tcp" {
		n.dialWithin(enough, from, network, address)
	} else {
		n.exchangeWithin(enough, from, address)
	}
}

func FuzzParseMessage(f *testing.F) {
	v4 := append([]byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 203, 0, 113, 10}, 0x9c, 0x40, 1, 187)
	v6 := make([]byte, 44)
	v6[0], v6[6] = 0x60, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(v6[42:], 443)
	for _, packet := range [][]byte{v4, v6, v4[:20], v6[:40], nil, {0x4f}} {
		attributes, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: attributePrefix, Data: []byte("guarded\x00")}, {Type: attributePayload, Data: packet}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{2, 0, 5, 57}, attributes...))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		s, ok := parseMessage(message)
		if ok && (!s.Source.IsValid() || !s.Destination.IsValid()) {
			t.Errorf("%x: no addresses: %+v", message, s)
		}
		if s.Port != 0 && s.Protocol != unix.IPPROTO_TCP && s.Protocol != unix.IPPROTO_UDP && s.Protocol != unix.IPPROTO_SCTP && s.Protocol != unix.IPPROTO_UDPLITE {
			t.Errorf("%x: a port without a protocol that has ports: %+v", message, s)
		}
	})
}

func TestParsePacket(t *testing.T) {
	v4 := []byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 203, 0, 113, 10, 0x9c, 0x40, 1, 187}
	if s, ok := parsePacket(v4); !ok || s.Port != 443 || s.Source != netip.MustParseAddr("10.0.0.1") || s.Destination != netip.MustParseAddr("203.0.113.10") {
		t.Errorf("%+v", s)
	}
	fragment := append([]byte{}, v4...)
	fragment[7] = 8 // not the first, so what follows is no header
	if s, ok := parsePacket(fragment); !ok || s.Port != 0 {
		t.Errorf("a fragment: %+v", s)
	}
	options := append([]byte{}, v4...)
	options[0] = 0x4f // longer than what is there
	if s, ok := parsePacket(options); !ok || s.Port != 0 {
		t.Errorf("options: %+v", s)
	}
}
