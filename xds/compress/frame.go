package compress

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// window is how far back, in bytes, a frame refers: what both ends keep while they work on one.
const window = 256 << 10

// compressors are used again, since each has about a megabyte of tables, and there are no more than can work at a time.
var compressors = make(chan *compressor, runtime.GOMAXPROCS(0))

func init() {
	for range cap(compressors) {
		compressors <- nil
	}
}

type compressor struct {
	*zstd.Encoder
	out bytes.Buffer
}

func newCompressor() *compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return &compressor{Encoder: e}
}

// A message that is compressed begins with a skippable frame, which says how large it will be: whoever reads it makes room once.
const (
	skippable = 0x184d2a50
	// HeadSize is how many bytes Head has.
	HeadSize = 12
)

// Head is what a compressed message begins with that has so many bytes when it is decompressed.
func Head(size int) []byte { return AppendHead(make([]byte, 0, HeadSize), size) }

// AppendHead adds it to what there is.
func AppendHead(to []byte, size int) []byte {
	to = binary.LittleEndian.AppendUint32(to, skippable)
	to = binary.LittleEndian.AppendUint32(to, HeadSize-8)
	return binary.LittleEndian.AppendUint32(to, uint32(size))
}

const (
	// RawSize is how many bytes AppendRaw adds.
	RawSize = 9
	// MaxRaw is of how many bytes it may tell at most.
	MaxRaw = 255
)

// AppendRaw begins a frame of so many bytes that are not compressed and follow as they are: for what is too short to become any shorter.
func AppendRaw(to []byte, size int) []byte {
	const (
		magic   = 0xfd2fb528
		segment = 1 << 5 // one that is kept whole, and its size is said in a byte (RFC 8878, section 3.1.1.1)
		last    = 1      // block, and a raw one (section 3.1.1.2)
	)
	to = append(binary.LittleEndian.AppendUint32(to, magic), segment, byte(size))
	block := size<<3 | last
	return append(to, byte(block), byte(block>>8), byte(block>>16))
}

// headed reads it. No message that is not compressed begins so, of a service that is sent compressed ones: its first byte would be field 10 as a
// number.
func headed(message []byte) (size int, ok bool) {
	if len(message) < HeadSize || binary.LittleEndian.Uint32(message) != skippable || binary.LittleEndian.Uint32(message[4:]) != HeadSize-8 {
		return 0, false
	}
	return int(binary.LittleEndian.Uint32(message[8:])), true
}

// decompressor is for whole frames of our own, by any goroutine.
var decompressor = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return d
})

// Open decompresses a frame that Frame made of so many bytes.
func Open(frame []byte, size int) []byte {
	whole, err := decompressor().DecodeAll(frame, make([]byte, 0, size))
	if err != nil || len(whole) != size {
		panic(fmt.Sprintf("compress: a frame of %d bytes opens to %d: %v", size, len(whole), err)) // memory is not what was written
	}
	return whole
}

// Frame compresses parts, one after the other, as one frame.
func Frame(parts iter.Seq[[]byte]) []byte {
	p := <-compressors
	defer func() { compressors <- p }()
	if p == nil {
		p = newCompressor()
	}
	p.out.Reset()
	p.Reset(&p.out)
	for part := range parts {
		_, _ = p.Write(part) // to memory
	}
	_ = p.Close()
	return bytes.Clone(p.out.Bytes())
}
