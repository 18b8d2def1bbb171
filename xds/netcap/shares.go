package netcap

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Shares is room that peers have in common, of connections, bytes or whatever is counted. While there is some, everybody gets it. When there is none,
// who has most gives to who would have less, so that a peer alone leaves others no less than their part.
type Shares struct {
	room int

	mu    sync.Mutex
	taken int
	of    map[netip.Prefix]*share
}

// share is what a peer has.
type share struct {
	taken int
	held  []*hold // the newest is the last
}

// hold is what was taken at a time.
type hold struct {
	n   int
	end func()
}

// NewShares makes room.
func NewShares(room int) *Shares {
	return &Shares{room: room, of: map[netip.Prefix]*share{}}
}

// Take takes n for a peer, and gives how it is given back, which may be called often. end is called, once and after the room is somebody else's, when it
// has to be given up before. The zero prefix is nobody in particular: what it has is counted, and never taken away. ok is false when there is no room, and nobody has more
// than the peer would have.
func (s *Shares) Take(peer netip.Prefix, n int, end func()) (back func(), ok bool) {
	s.mu.Lock()
	given, ok := s.given(peer, n)
	if !ok {
		s.mu.Unlock()
		return nil, false
	}
	h := &hold{n, end}
	s.taken += n
	if peer.IsValid() {
		mine := s.of[peer]
		if mine == nil {
			mine = &share{}
			s.of[peer] = mine
		}
		mine.taken += n
		mine.held = append(mine.held, h)
	}
	s.mu.Unlock()
	for _, g := range given {
		g.end()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(peer, h)
	}, true
}

// Held is how much a peer has.
func (s *Shares) Held(peer netip.Prefix) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine := s.of[peer]; mine != nil {
		return mine.taken
	}
	return 0
}

// given takes from those who have most what lacks for n, all of it or nothing.
func (s *Shares) given(peer netip.Prefix, n int) (out []*hold, ok bool) {
	lacks := s.taken + n - s.room
	if lacks <= 0 {
		return nil, true
	}
	would := n
	if mine := s.of[peer]; mine != nil {
		would += mine.taken
	}
	type part struct{ holds, n int }
	gives := map[netip.Prefix]part{}
	var from []netip.Prefix // for each of out
	for lacks > 0 {
		var most netip.Prefix
		had := would
		for p, of := range s.of {
			if left := of.taken - gives[p].n; left > had && p != peer {
				most, had = p, left
			}
		}
		if !most.IsValid() {
			return nil, false
		}
		held, g := s.of[most].held, gives[most]
		h := held[len(held)-1-g.holds]
		gives[most] = part{g.holds + 1, g.n + h.n}
		out, from = append(out, h), append(from, most)
		lacks -= h.n
	}
	for i, h := range out {
		s.drop(from[i], h)
	}
	return out, true
}

// drop forgets what was taken, if it is still.
func (s *Shares) drop(peer netip.Prefix, h *hold) {
	if h.n == 0 {
		return
	}
	if of := s.of[peer]; of != nil {
		at := slices.Index(of.held, h)
		of.held = slices.Delete(of.held, at, at+1)
		if of.taken -= h.n; len(of.held) == 0 {
			delete(s.of, peer)
		}
	}
	s.taken -= h.n
	h.n = 0
}

// Peer is what counts as one peer: an address, of IPv6 the /64 that it is in, whose addresses one host can have all. The zero prefix is for what has none.
func Peer(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return PeerOf(tcp.AddrPort().Addr())
}

// PeerOf is Peer of an address that was parsed.
func PeerOf(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() {
		return netip.Prefix{}
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(ip, bits).Masked()
}
