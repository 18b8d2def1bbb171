package sockdiag

import (
	"encoding/binary"
	"errors"
)

// alive are the states of a connection that somebody holds, or tries to open.
const alive = open | 1<<synSent | 1<<synReceived

const (
	synSent     = 2
	synReceived = 3
)

// mostEnded is how many connections one message ends.
const mostEnded = 64

// EndResting ends the connections of this network namespace that have had nothing to send since they were looked at before: seen is what that look gave, nil at first, which ends
// none. With all it ends all. It gives those that it left, by the kernel's number of each, with whether they had something to send.
func EndResting(seen map[uint64]bool, all bool) (left map[uint64]bool, err error) {
	var ends []Connection
	left = map[uint64]bool{}
	if err := dumpWith(alive, 0, func(message []byte, c Connection, _ uint8) {
		sends := unsent(message) > 0
		if sent, known := seen[c.Cookie]; all || known && !sent && !sends {
			ends = append(ends, c)
		} else {
			left[c.Cookie] = sends
		}
	}); err != nil {
		return left, err
	}
	for len(ends) > 0 {
		n := min(len(ends), mostEnded)
		if err := destroy(ends[:n]); err != nil && !errors.Is(err, ErrGone) {
			return left, err
		}
		ends = ends[n:]
	}
	return left, nil
}

// unsent is how many bytes are to be sent, or not acknowledged yet, as an inet_diag_msg says.
func unsent(b []byte) uint32 { return binary.NativeEndian.Uint32(b[unsentAt:]) }
