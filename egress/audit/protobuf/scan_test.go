package protobuf

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzScan: fields are read as protobuf's own reader reads them, whatever comes.
func FuzzScan(f *testing.F) {
	for _, m := range []string{
		"", "\x0a\x00", "\x0a\x03abc\x10\x96\x01", "\x0a\x05abc", "\xff", "\x0b\x0c", "\x00\x01", "\x08\x80", "\x0d\x01\x02\x03\x04\x09\x01\x02\x03\x04\x05\x06\x07\x08",
		"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\x8a\x00\x03abc", "\x0a\x83\x00abc", "\xf8\xff\xff\xff\xff\x01\x05",
	} {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		got, rest := Scan(string(m)), m
		for len(rest) > 0 {
			number, kind, size := protowire.ConsumeTag(rest)
			value := 0
			if size > 0 && kind != protowire.StartGroupType {
				value = protowire.ConsumeFieldValue(number, kind, rest[size:])
			}
			if size < 0 || value < 0 || kind == protowire.StartGroupType {
				if got.Next() || !errors.Is(got.Err(), ErrMalformed) || got.Next() {
					t.Fatalf("%x: after %d bytes comes nothing good, and tag %d was read", m, len(m)-len(rest), got.Tag)
				}
				return
			}
			if !got.Next() || got.Tag != uint64(number)<<3|uint64(kind) {
				t.Fatalf("%x: tag %d, want %d", m, got.Tag, protowire.EncodeTag(number, kind))
			}
			switch kind {
			case protowire.VarintType:
				if n, _ := protowire.ConsumeVarint(rest[size:]); n != got.Uint {
					t.Fatalf("%x: %d, want %d", m, got.Uint, n)
				}
			case protowire.BytesType:
				if b, _ := protowire.ConsumeBytes(rest[size:]); string(b) != got.Text {
					t.Fatalf("%x: %q, want %q", m, got.Text, b)
				}
			}
			rest = rest[size+value:]
		}
		if got.Next() || got.Err() != nil {
			t.Fatalf("%x: more than is there, %v", m, got.Err())
		}
	})
}
