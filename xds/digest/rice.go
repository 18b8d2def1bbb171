package digest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// RiceBits is how many bits of a value's distance to the one before are written as they are; the rest is written in unary. It sets how often
// what is not there may seem to be: once in 2^RiceBits.
const RiceBits = 12

// Encode writes a bucket: how many values there are (a varint), and their distances in order, by Golomb's code with Rice's parameter. The values are
// made as small first as that number allows. It is empty for no values, and the same for the same values in any order.
func Encode(values []uint64) []byte {
	if len(values) == 0 {
		return nil
	}
	small := make([]uint64, len(values))
	for i, v := range values {
		small[i] = reduce(v, len(values))
	}
	slices.Sort(small)
	w := bitWriter{out: binary.AppendUvarint(make([]byte, 0, 2+len(values)*(RiceBits+3)/8), uint64(len(values)))}
	last := uint64(0)
	for _, v := range small {
		for range (v - last) >> RiceBits {
			w.bits(1, 1)
		}
		w.bits((v-last)&(1<<RiceBits-1), RiceBits+1) // the first of them is 0
		last = v
	}
	return w.end()
}

// reduce maps a value evenly to one below count·2^RiceBits.
func reduce(v uint64, count int) uint64 {
	high, _ := bits.Mul64(v, uint64(count)<<RiceBits)
	return high
}

// errShort is of a bucket that ends before its values do.
var errShort = errors.New("it ends before its last value")

// walk gives the values of a bucket in order, as they were reduced, until f says false.
func walk(body []byte, f func(v uint64) bool) error {
	if len(body) == 0 {
		return nil
	}
	count, size := binary.Uvarint(body)
	if size <= 0 || count == 0 || count > uint64(len(body))*8 {
		return fmt.Errorf("%d bytes cannot hold %d values", len(body), count)
	}
	r, last := bitReader{in: body[size:]}, uint64(0)
	for range count {
		for r.bit() == 1 {
			last += 1 << RiceBits
		}
		low := uint64(0)
		for range RiceBits {
			low = low<<1 | uint64(r.bit())
		}
		if r.over {
			return errShort
		}
		if last += low; last >= count<<RiceBits {
			return fmt.Errorf("a value of %d where %d is too large", last, count<<RiceBits)
		}
		if !f(last) {
			return nil
		}
	}
	if (r.at+7)/8 != len(r.in) {
		return errors.New("something follows its last value")
	}
	return nil
}

// holds says whether a bucket may hold a value.
func holds(body []byte, value uint64) bool {
	count, _ := binary.Uvarint(body)
	want, found := reduce(value, int(count)), false
	err := walk(body, func(v uint64) bool {
		found = v == want
		return v < want
	})
	return found || err != nil
}

// bitWriter appends bits, the highest of a byte first.
type bitWriter struct {
	out   []byte
	last  uint64 // its lowest bits are not in out yet
	count int    // how many of them: less than 8
}

// bits appends the lowest of v, the highest first; the others are 0. They are 56 at most.
func (w *bitWriter) bits(v uint64, count int) {
	w.last, w.count = w.last<<count|v, w.count+count
	for ; w.count >= 8; w.count -= 8 {
		w.out = append(w.out, byte(w.last>>(w.count-8)))
	}
}

// end gives all of them; what is left of the last byte is 0.
func (w *bitWriter) end() []byte {
	if w.count > 0 {
		w.bits(0, 8-w.count)
	}
	return w.out
}

// bitReader reads them; what is over reads as 0.
type bitReader struct {
	in   []byte
	at   int
	over bool
}

func (r *bitReader) bit() byte {
	if r.at >= len(r.in)*8 {
		r.over = true
		return 0
	}
	b := r.in[r.at/8] >> (7 - r.at%8) & 1
	r.at++
	return b
}
