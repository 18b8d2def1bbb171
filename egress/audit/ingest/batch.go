package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	// MaxBatch is how many records a batch holds at most.
	MaxBatch = 1000

	batchBytes   = 1 << 20  // of JSON, after which a batch is full; gRPC's limit for a message is 4 MiB
	decodedBytes = 16 << 20 // of JSON that the receiver unpacks at most
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

// EncodeBatch packs as many of the records as one message should carry (at least one; MaxBatch, about 1 MiB of JSON)
// and says how many those were. A batch is JSON lines in one zstd frame.
func EncodeBatch(records []record.Record) (packed []byte, taken int, err error) {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for taken < len(records) && taken < MaxBatch && lines.Len() < batchBytes {
		if err := enc.Encode(&records[taken]); err != nil {
			return nil, 0, fmt.Errorf("audit record %d of %s: %w", records[taken].Seq, records[taken].Proxy, err)
		}
		taken++
	}
	return encoder().EncodeAll(lines.Bytes(), nil), taken, nil
}

// DecodeBatch unpacks what EncodeBatch packed. It refuses more than 16 MiB of JSON.
func DecodeBatch(packed []byte) ([]record.Record, error) {
	lines, err := decoder().DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("audit batch of %d bytes: %w", len(packed), err)
	}
	var records []record.Record
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte{'\n'})
		lines = rest
		if len(line) == 0 {
			continue
		}
		var r record.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("audit batch, record %d: %w", len(records), err)
		}
		records = append(records, r)
	}
	return records, nil
}
