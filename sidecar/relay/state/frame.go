package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A file is a sequence of frames:
//
//	length of payload, uint32 little endian | CRC-32C of payload, uint32 little endian | payload
//
// The first frame's payload is the header, every other one a record: one byte for the operation, then for a put the
// serialized envoy.service.discovery.v3.Resource, for a removal the resource's name.
const (
	frameHead = 8
	maxFrame  = 64 << 20 // bytes of one payload; more is damage, not a resource

	opPut    = 'P'
	opRemove = 'R'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn says that a frame is cut off or damaged; everything before it is good.
var errTorn = errors.New("torn frame")

// frame appends one frame, whose payload is op followed by body.
func frame(dst []byte, op byte, body []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(1+len(body)))
	sum := crc32.Update(crc32.Checksum([]byte{op}, castagnoli), castagnoli, body)
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	dst = append(dst, op)
	return append(dst, body...)
}

// frameReader reads frames in order and knows where each began.
type frameReader struct {
	in  *bufio.Reader
	off int64 // of the next frame
	buf []byte
}

func newFrameReader(in io.Reader) *frameReader {
	return &frameReader{in: bufio.NewReaderSize(in, 1<<16)}
}

// next gives the operation and body of the next frame; body is valid until the next call. io.EOF ends a whole file,
// errTorn a damaged one: off then is the length of what is good.
func (r *frameReader) next() (op byte, body []byte, err error) {
	var head [frameHead]byte
	switch n, err := io.ReadFull(r.in, head[:]); {
	case n == 0 && errors.Is(err, io.EOF):
		return 0, nil, io.EOF
	case err != nil:
		return 0, nil, fmt.Errorf("%w: %d bytes of a head at %d", errTorn, n, r.off)
	}
	length, sum := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if length == 0 || length > maxFrame {
		return 0, nil, fmt.Errorf("%w: length %d at %d", errTorn, length, r.off)
	}
	if err := r.fill(int(length)); err != nil {
		return 0, nil, err
	}
	if got := crc32.Checksum(r.buf, castagnoli); got != sum {
		return 0, nil, fmt.Errorf("%w: checksum %08x at %d, want %08x", errTorn, got, r.off, sum)
	}
	r.off += frameHead + int64(length)
	return r.buf[0], r.buf[1:], nil
}

// fill reads a payload in steps, so that a damaged length does not allocate more than the file holds.
func (r *frameReader) fill(length int) error {
	const step = 1 << 16
	r.buf = r.buf[:0]
	for len(r.buf) < length {
		old := len(r.buf)
		grow := min(step, length-old)
		r.buf = append(r.buf, make([]byte, grow)...)
		if _, err := io.ReadFull(r.in, r.buf[old:]); err != nil {
			return fmt.Errorf("%w: payload at %d ends after %d of %d bytes", errTorn, r.off, old, length)
		}
	}
	return nil
}
