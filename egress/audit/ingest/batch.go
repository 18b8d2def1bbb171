package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/egress/audit/ingest/ingestpb"
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
func EncodeBatch(records []record.Record) (packed []byte, taken int, err error) {
	var raw []byte
	for taken < len(records) && taken < MaxBatch && len(raw) < batchBytes {
		m := message(&records[taken])
		raw = protowire.AppendVarint(protowire.AppendTag(raw, batchRecords, protowire.BytesType), uint64(proto.Size(m)))
		if raw, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(raw, m); err != nil {
			return nil, 0, fmt.Errorf("audit record %d of %s: %w", records[taken].Seq, records[taken].Proxy, err)
		}
		taken++
	}
	return encoder().EncodeAll(raw, nil), taken, nil
}

// batchRecords is the number of the field Batch.records.
const batchRecords protowire.Number = 1

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
	var records []record.Record
	for len(raw) > 0 {
		number, kind, size := protowire.ConsumeTag(raw)
		if size < 0 {
			return nil, fmt.Errorf("audit batch, record %d: %w", len(records), protowire.ParseError(size))
		}
		value := raw[size:]
		if size = protowire.ConsumeFieldValue(number, kind, value); size < 0 {
			return nil, fmt.Errorf("audit batch, record %d: %w", len(records), protowire.ParseError(size))
		}
		raw = value[size:]
		if number != batchRecords || kind != protowire.BytesType {
			continue // of a newer sender
		}
		if len(records) == MaxBatch {
			return nil, errTooMany
		}
		body, _ := protowire.ConsumeBytes(value)
		var m ingestpb.Record
		if err := proto.Unmarshal(body, &m); err != nil {
			return nil, fmt.Errorf("audit batch, record %d: %w", len(records), err)
		}
		records = append(records, fromMessage(&m))
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
