package store

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// span is the sequence numbers lo to hi, both included.
type span struct{ lo, hi uint64 }

// spans is a set of sequence numbers: sorted, disjoint, not adjacent. A spool that ships in order makes one span.
type spans []span

// maxSpans bounds a set. Past it the lowest span is forgotten: should its records be sent again they are stored twice,
// which is better than taking a record that was never stored for a copy. A spool's records come in order and its holes
// are what it lost, so that in practice there are few.
const maxSpans = 256

// add returns the set with seq in it, and whether it is new there. The receiver may be changed.
func (s spans) add(seq uint64) (spans, bool) {
	n := len(s)
	if n > 0 && seq > s[n-1].hi && seq-1 == s[n-1].hi { // the usual case
		s[n-1].hi = seq
		return s, true
	}
	i := sort.Search(n, func(i int) bool { return s[i].hi >= seq }) // first span that ends at or after seq
	if i < n && s[i].lo <= seq {
		return s, false
	}
	joinsLeft := i > 0 && s[i-1].hi+1 == seq
	joinsRight := i < n && seq+1 == s[i].lo
	switch {
	case joinsLeft && joinsRight:
		s[i-1].hi = s[i].hi
		s = slices.Delete(s, i, i+1)
	case joinsLeft:
		s[i-1].hi = seq
	case joinsRight:
		s[i].lo = seq
	default:
		s = slices.Insert(s, i, span{seq, seq})
	}
	if len(s) > maxSpans {
		s = slices.Delete(s, 0, 1)
	}
	return s, true
}

// String writes the set as "1-500,510-600".
func (s spans) String() string {
	var b strings.Builder
	for i, x := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d-%d", x.lo, x.hi)
	}
	return b.String()
}

// parseSpans reads what String wrote.
func parseSpans(text string) (spans, error) {
	var out spans
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		a, b, _ := strings.Cut(part, "-")
		lo, errLo := strconv.ParseUint(a, 10, 64)
		hi, errHi := strconv.ParseUint(b, 10, 64)
		if errLo != nil || errHi != nil || lo > hi || len(out) > 0 && lo <= out[len(out)-1].hi {
			return nil, fmt.Errorf("spans %q: %q is no range of ascending numbers", text, part)
		}
		out = append(out, span{lo, hi})
	}
	return out, nil
}
