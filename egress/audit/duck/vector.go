package duck

import (
	"encoding/binary"
	"runtime"
	"time"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2/mapping"
)

// Vector is a column of a chunk that is written. Each place is written once, with what the column's type is; texts are valid UTF-8.
type Vector struct {
	vector mapping.Vector
	data   unsafe.Pointer
	valid  []uint64 // a bit for each place that is not NULL; nil while all are
	most   int
	room   *room

	last   string // text that was put last
	lastAt int    // where; -1 before the first
}

// text is a text as DuckDB has it in memory (duckdb_string_t in its header): the length, and the text itself where it has 12 bytes at most; otherwise its first four, and where all of it is.
type text struct {
	length uint32
	head   [4]byte
	tail   [8]byte
}

// inlined is how long a text may be that is within.
const inlined = 12

func (v *Vector) begin(vector mapping.Vector, most int, room *room) {
	*v = Vector{vector: vector, data: mapping.VectorGetData(vector), most: most, room: room, lastAt: -1}
}

// places are the column's, of its type.
func places[T any](v *Vector) []T {
	return unsafe.Slice((*T)(v.data), v.most) //nolint:gosec // G103: DuckDB made so many
}

// Text puts a text. clean makes it one that may be stored; it is not called for what was put just before.
func (v *Vector) Text(at int, s string, clean func(string) string) {
	texts := places[text](v)
	if v.lastAt >= 0 && s == v.last {
		texts[at] = texts[v.lastAt]
		return
	}
	v.last, v.lastAt = s, at
	s = clean(s)
	t := text{length: uint32(len(s))}
	if len(s) <= inlined {
		copy(t.head[:], s)
		if len(s) > len(t.head) {
			copy(t.tail[:], s[len(t.head):])
		}
	} else {
		copy(t.head[:], s)
		binary.NativeEndian.PutUint64(t.tail[:], uint64(v.room.keep(s))) // it stays there until the chunk is appended
	}
	texts[at] = t
}

// Number32 puts a number of 32 bits.
func (v *Vector) Number32(at int, n uint32) { places[uint32](v)[at] = n }

// Number64 puts a number of 64 bits.
func (v *Vector) Number64(at int, n uint64) { places[uint64](v)[at] = n }

// Time puts a moment, in microseconds.
func (v *Vector) Time(at int, t time.Time) {
	places[int64](v)[at] = t.UnixMicro()
}

// Null puts nothing.
func (v *Vector) Null(at int) {
	if v.valid == nil {
		mapping.VectorEnsureValidityWritable(v.vector)
		v.valid = unsafe.Slice((*uint64)(mapping.VectorGetValidity(v.vector)), (v.most+63)/64) //nolint:gosec // G103: a bit for each
	}
	v.valid[at/64] &^= 1 << (at % 64)
}

// room holds texts that DuckDB is to read, in memory that stays where it is.
type room struct {
	blocks [][]byte // all of which but the last are full
	spare  []byte   // a block to begin with
	pins   runtime.Pinner
}

// blockSize is that of a block, but for texts that are longer.
const blockSize = 256 << 10

// keep copies a text, and says where it is until empty.
func (r *room) keep(s string) uintptr {
	n := len(r.blocks)
	if n == 0 || cap(r.blocks[n-1])-len(r.blocks[n-1]) < len(s) {
		block := r.spare
		if n > 0 || cap(block) < len(s) {
			block = make([]byte, 0, max(blockSize, len(s)))
		}
		r.pins.Pin(unsafe.SliceData(block)) //nolint:gosec // G103: it stays where it is until empty
		r.blocks, n = append(r.blocks, block), n+1
	}
	last := &r.blocks[n-1]
	at := len(*last)
	*last = append(*last, s...)
	return uintptr(unsafe.Pointer(&(*last)[at])) //nolint:gosec // G103: of a block that is pinned
}

// empty forgets the texts.
func (r *room) empty() {
	if len(r.blocks) > 0 {
		r.spare = r.blocks[0][:0]
	}
	clear(r.blocks)
	r.blocks = r.blocks[:0]
	r.pins.Unpin()
}
