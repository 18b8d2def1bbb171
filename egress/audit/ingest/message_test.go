package ingest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/ingest/ingestpb"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// wholeRecord has something else in each field.
func wholeRecord() (r record.Record) {
	n := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			n++
			switch f := v.Field(i); f.Kind() {
			case reflect.String:
				f.SetString(strings.Repeat("ü", n))
			case reflect.Uint32, reflect.Uint64:
				f.SetUint(uint64(n) + 1<<31)
			case reflect.Int64:
				f.SetInt(int64(n) + 1<<40)
			case reflect.Slice:
				f.Set(reflect.ValueOf([]string{"A", strings.Repeat("B", n)}))
			case reflect.Struct:
				if f.Type() == reflect.TypeFor[time.Time]() {
					f.Set(reflect.ValueOf(time.Date(9999, 1, 2, 3, 4, 5, 123456789, time.UTC)))
				} else {
					fill(f)
				}
			}
		}
	}
	fill(reflect.ValueOf(&r).Elem())
	return r
}

// lines is a batch as senders wrote it before there was a message for it.
func lines(t testing.TB, records ...record.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, r := range records {
		if err := json.NewEncoder(&b).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return encoder().EncodeAll(b.Bytes(), nil)
}

// TestEveryFieldTravels, as a message and as the JSON line of an older sender.
func TestEveryFieldTravels(t *testing.T) {
	r := wholeRecord()
	packed, taken, err := EncodeBatch([]record.Record{r, {}})
	if err != nil || taken != 2 {
		t.Fatal(taken, err)
	}
	for name, batch := range map[string][]byte{"message": packed, "lines": lines(t, r, record.Record{})} {
		got, err := DecodeBatch(batch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]record.Record{r, {}}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	fields := (&ingestpb.Record{}).ProtoReflect().Descriptor().Fields()
	for _, c := range schema.Columns {
		if c.Name != "time" && fields.ByTextName(c.Name) == nil {
			t.Errorf("ingest.proto has no field %q", c.Name)
		}
	}
	if fields.Len() != len(schema.Columns)+1 { // a time has two
		t.Errorf("ingest.proto has %d fields, a record %d columns", fields.Len(), len(schema.Columns))
	}
}

// TestTextThatIsNotUTF8 does not keep a batch from being sent.
func TestTextThatIsNotUTF8(t *testing.T) {
	flags := []string{"UF", "\xff"}
	packed, _, err := EncodeBatch([]record.Record{{URLPath: "/\xff\xfe\x00", Flags: flags}, {Host: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeBatch(packed)
	if err != nil || len(got) != 2 || got[0].URLPath != "/\uFFFD\x00" || got[0].Flags[1] != "\uFFFD" || flags[1] != "\xff" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestManySmallRecords: what takes a few bytes on the wire takes much more here.
func TestManySmallRecords(t *testing.T) {
	for name, one := range map[string]string{"messages": "\x0a\x00", "lines": "{}\n"} {
		raw := []byte(strings.Repeat(one, 4<<20))
		if got, err := DecodeBatch(encoder().EncodeAll(raw, nil)); err == nil || len(got) > MaxBatch {
			t.Errorf("%s: %d records, %v", name, len(got), err)
		}
		if got, err := DecodeBatch(encoder().EncodeAll([]byte(strings.Repeat(one, MaxBatch)), nil)); err != nil || len(got) != MaxBatch {
			t.Errorf("%s: %d records, %v", name, len(got), err)
		}
	}
	for _, raw := range []string{"\x0a", "\x0a\x05", "\xff", "\x0a\x02\x0a\xff", "{", "\x0b\x0c"} {
		if got, err := DecodeBatch(encoder().EncodeAll([]byte(raw), nil)); err == nil && len(got) > 0 {
			t.Errorf("%q is %+v", raw, got)
		}
	}
}

// BenchmarkDecodeLines is how batches came before; BenchmarkEncodeDecode has how they come now.
func BenchmarkDecodeLines(b *testing.B) {
	batch := lines(b, recs(MaxBatch)...)
	for b.Loop() {
		if _, err := DecodeBatch(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*MaxBatch)/b.Elapsed().Seconds(), "records/s")
}
