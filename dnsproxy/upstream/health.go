package upstream

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"time"
)

// ErrDeclined is an answer like SERVFAIL or REFUSED: the server works, but does not help with this question.
var ErrDeclined = errors.New("the server declined")

// When servers that are not asked anyway are asked something of ours, to know how they are.
const (
	probeWell   = time.Minute // since its round-trip time was measured
	probeIll    = time.Second // after the first failure; doubled with each further one
	probeIllMax = 30 * time.Second
)

// health is what is known of a server's speed. Its owner locks it.
type health struct {
	measured   bool
	srtt, sdev time.Duration // smoothed round-trip time and its mean deviation (RFC 6298)
	failures   int           // since the last answer
	nextProbe  time.Time
	probingNow bool
}

// note takes the end of an attempt. To decline a question is not to be ill, and to be interrupted says nothing.
func (h *health) note(took time.Duration, err error, now time.Time) {
	switch {
	case err == nil || errors.Is(err, ErrDeclined):
		h.sample(took)
		h.failures = 0
		h.nextProbe = now.Add(probeWell)
	case errors.Is(err, context.Canceled):
	default:
		h.failures++
		h.nextProbe = now.Add(min(probeIll<<min(h.failures-1, 8), probeIllMax))
	}
}

// beaten takes an attempt that was given up after took because another server answered first: the answer would have
// taken longer than that, and a probe shall tell how long.
func (h *health) beaten(took time.Duration, now time.Time) {
	if took > h.srtt {
		h.sample(took)
		h.srtt = max(h.srtt, took)
	}
	h.nextProbe = now
}

func (h *health) sample(took time.Duration) {
	if !h.measured {
		h.measured, h.srtt, h.sdev = true, took, took/2
		return
	}
	off := took - h.srtt
	h.srtt += off / 8
	h.sdev += (max(off, -off) - h.sdev) / 4
}

// class is a server's place: those that answer, by speed in powers of two of a millisecond, then those not yet
// measured, then the ill.
func (h *health) class() int {
	switch {
	case h.failures > 0:
		return 100
	case !h.measured:
		return 50
	default:
		return bits.Len64(uint64(h.srtt / time.Millisecond))
	}
}

// inOrder puts the faster servers first and keeps the configured order among equals.
func inOrder(peers []*peer) []*peer {
	if len(peers) < 2 {
		return peers
	}
	type placed struct {
		*peer
		class int
	}
	all := make([]placed, len(peers))
	for i, p := range peers {
		p.mu.Lock()
		all[i] = placed{p, p.class()}
		p.mu.Unlock()
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.class - b.class })
	out := make([]*peer, len(all))
	for i, p := range all {
		out[i] = p.peer
	}
	return out
}
