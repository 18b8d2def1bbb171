package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	// MaxBatch is how many records a batch holds at most.
	MaxBatch = 1000

	batchBytes   = 1 << 20  // after which a batch is full; gRPC's limit for a message is 4 MiB
	decodedBytes = 16 << 20 // that the receiver unpacks at most
)

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(512<<10))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(decodedBytes))
	if err != nil {
		panic(err)
	}
	return d
})

// EncodeBatch packs as many of the records as one message should carry (at least one; MaxBatch, about 1 MiB)
// and says how many those were. A batch is an ingestpb.Batch in one zstd frame.
func EncodeBatch(records []record.Record) (packed []byte, taken int) {
	var raw []byte
	for taken < len(records) && taken < MaxBatch && len(raw) < batchBytes {
		raw = protobuf.AppendRecord(raw, &records[taken])
		taken++
	}
	return pack(raw), taken
}

// pack compresses an ingestpb.Batch.
func pack(batch []byte) []byte { return encoder().EncodeAll(batch, nil) }

// DecodeBatch unpacks what EncodeBatch packed, or what senders of before it did: JSON lines. It refuses more than 16 MiB, and more
// than MaxBatch records, before it makes them.
func DecodeBatch(packed []byte) ([]record.Record, error) {
	raw, err := decoder().DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("audit batch of %d bytes: %w", len(packed), err)
	}
	if len(raw) > 0 && raw[0] == '{' { // as a tag it would be of a group, which there are none of
		return decodeLines(raw)
	}
	text := string(raw)
	count := 0
	f := protobuf.Scan(text)
	for f.Next() {
		if f.Tag == protobuf.BatchRecord {
			count++
		}
	}
	switch {
	case f.Err() != nil:
		return nil, fmt.Errorf("audit batch, record %d: %w", count, f.Err())
	case count > MaxBatch:
		return nil, errTooMany
	}
	records := make([]record.Record, 0, count)
	for f := protobuf.Scan(text); f.Next(); {
		if f.Tag != protobuf.BatchRecord {
			continue // of a newer sender
		}
		records = records[:len(records)+1]
		// A copy: one that is kept shall not keep the whole batch.
		if err := protobuf.ReadRecord(strings.Clone(f.Text), &records[len(records)-1]); err != nil {
			return nil, fmt.Errorf("audit batch, record %d: %w", len(records)-1, err)
		}
	}
	return records, nil
}

var errTooMany = fmt.Errorf("audit batch: more than %d records", MaxBatch)

// decodeLines reads a batch of JSON lines.
func decodeLines(lines []byte) ([]record.Record, error) {
	var records []record.Record
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte{'\n'})
		lines = rest
		if len(line) == 0 {
			continue
		}
		if len(records) == MaxBatch {
			return nil, errTooMany
		}
		var r record.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("audit batch, record %d: %w", len(records), err)
		}
		records = append(records, r)
	}
	return records, nil
}
