package spool

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A frame is a header and a payload, integers little endian:
//
//	bytes 0–3   length of the payload
//	bytes 4–7   CRC-32C (RFC 3720, 12.1) of bytes 8 to the end of the payload
//	bytes 8–15  sequence number
//	bytes 16–   the record, as an ingestpb.Batch of one (package protobuf), or, of versions before it, as JSON
const (
	frameHeader = 16
	maxPayload  = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errFrameShort  = errors.New("frame ends early")
	errFrameLength = errors.New("frame length is out of range")
	errFrameSum    = errors.New("frame checksum does not match")
	errFrameRecord = errors.New("frame holds no record")
)

// frame is a frame in a buffer of several.
type frame struct {
	end int    // behind it
	gap uint64 // of a gap record, how many it stands for
}

// beginFrame appends room for a header. The payload is appended behind it, then endFrame writes the header.
func beginFrame(dst []byte) []byte { return append(dst, make([]byte, frameHeader)...) }

// endFrame completes the frame that begins at an offset.
func endFrame(dst []byte, at int, seq uint64) []byte {
	f := dst[at:]
	binary.LittleEndian.PutUint32(f, uint32(len(f)-frameHeader))
	binary.LittleEndian.PutUint64(f[8:], seq)
	binary.LittleEndian.PutUint32(f[4:], crc32.Checksum(f[8:], castagnoli))
	return dst
}

// readFrame reads the frame that b begins with; payload points into b, size is the whole frame's.
func readFrame(b []byte) (seq uint64, payload []byte, size int, err error) {
	if len(b) < frameHeader {
		return 0, nil, 0, errFrameShort
	}
	length := int(binary.LittleEndian.Uint32(b))
	if length == 0 || length > maxPayload {
		return 0, nil, 0, errFrameLength
	}
	size = frameHeader + length
	if len(b) < size {
		return 0, nil, 0, errFrameShort
	}
	if crc32.Checksum(b[8:size], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return 0, nil, 0, errFrameSum
	}
	return binary.LittleEndian.Uint64(b[8:]), b[frameHeader:size], size, nil
}
