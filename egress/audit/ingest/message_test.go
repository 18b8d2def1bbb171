package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

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
	packed, taken := EncodeBatch([]record.Record{r, {}})
	if taken != 2 {
		t.Fatal(taken)
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
	var batch ingestpb.Batch
	raw, err := decoder().DecodeAll(packed, nil)
	if err != nil || proto.Unmarshal(raw, &batch) != nil || len(batch.Records) != 2 {
		t.Fatalf("what is written by hand is no Batch: %v, %v", &batch, err)
	}
	checkFields(t, &r, batch.Records[0])
	generated, err := proto.Marshal(&batch)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeBatch(pack(append(generated, "\x12\x03new\x0a\x04\xa2\x06\x01x"...))) // and what a newer sender may add
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]record.Record{r, {}, {Time: time.Unix(0, 0).UTC()}}, got); diff != "" {
		t.Errorf("what generated code writes is read as %s", diff)
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

// checkFields compares a record with the message of it, by the names that the fields have in ingest.proto and as columns.
func checkFields(t *testing.T, r *record.Record, m *ingestpb.Record) {
	t.Helper()
	of := m.ProtoReflect()
	for i := range schema.Columns {
		c := &schema.Columns[i]
		if c.Name == "time" {
			if m.Seconds != r.Time.Unix() || int(m.Nanos) != r.Time.Nanosecond() {
				t.Errorf("time: %d.%d, want %v", m.Seconds, m.Nanos, r.Time)
			}
			continue
		}
		field := of.Descriptor().Fields().ByTextName(c.Name)
		if field == nil {
			continue // told by its caller
		}
		value := of.Get(field)
		text := value.String()
		if field.IsList() {
			var all []string
			for i := range value.List().Len() {
				all = append(all, value.List().Get(i).String())
			}
			text = strings.Join(all, ",")
		}
		if want := fmt.Sprint(c.Value(r)); text != want {
			t.Errorf("%s: %q, want %q", c.Name, text, want)
		}
	}
}

// TestTextThatIsNotUTF8 does not keep a batch from being sent.
func TestTextThatIsNotUTF8(t *testing.T) {
	flags := []string{"UF", "\xff"}
	packed, _ := EncodeBatch([]record.Record{{URLPath: "/\xff\xfe\x00", Flags: flags}, {Host: "b"}})
	packed = append(packed, encoder().EncodeAll([]byte("\x0a\x05\x0a\x03a\xffb"), nil)...) // nor one of a sender that does not mend it
	got, err := DecodeBatch(packed)
	if err != nil || len(got) != 3 || got[2].Proxy != "a\uFFFDb" || got[0].URLPath != "/\uFFFD\x00" || got[0].Flags[1] != "\uFFFD" || flags[1] != "\xff" {
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
