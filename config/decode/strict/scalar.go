package strict

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// wellKnown are the messages that JSON writes as one value.
var wellKnown = map[protoreflect.FullName]func(c *checker, v any, path string){
	"google.protobuf.Duration":    (*checker).duration,
	"google.protobuf.Struct":      func(*checker, any, string) {},
	"google.protobuf.Value":       func(*checker, any, string) {},
	"google.protobuf.ListValue":   func(*checker, any, string) {},
	"google.protobuf.Any":         func(*checker, any, string) {},
	"google.protobuf.Timestamp":   (*checker).timestamp,
	"google.protobuf.StringValue": (*checker).text,
	"google.protobuf.BytesValue":  (*checker).text,
	"google.protobuf.BoolValue":   (*checker).boolean,
	"google.protobuf.Int32Value":  whole(math.MinInt32, math.MaxInt32),
	"google.protobuf.UInt32Value": whole(0, math.MaxUint32),
	"google.protobuf.Int64Value":  whole(math.MinInt64, math.MaxInt64),
	"google.protobuf.UInt64Value": whole(0, math.MaxInt64),
	"google.protobuf.FloatValue":  (*checker).number,
	"google.protobuf.DoubleValue": (*checker).number,
}

// single checks one value: of a field, of a list's item, or of a map's entry.
func (c *checker) single(v any, fd protoreflect.FieldDescriptor, path string) {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		c.message(v, fd.Message(), path)
	case protoreflect.EnumKind:
		c.enum(v, fd.Enum(), path)
	case protoreflect.StringKind, protoreflect.BytesKind:
		c.text(v, path)
	case protoreflect.BoolKind:
		c.boolean(v, path)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		c.number(v, path)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		whole(math.MinInt32, math.MaxInt32)(c, v, path)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		whole(0, math.MaxUint32)(c, v, path)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		whole(0, math.MaxInt64)(c, v, path)
	default:
		whole(math.MinInt64, math.MaxInt64)(c, v, path)
	}
}

// unset is the value of an enum of ours that stands for nothing written. Nobody writes it.
const unset = "Unset"

func (c *checker) enum(v any, ed protoreflect.EnumDescriptor, path string) {
	var names []string
	for i := range ed.Values().Len() {
		if name := string(ed.Values().Get(i).Name()); name != unset {
			names = append(names, name)
		}
	}
	switch v := v.(type) {
	case string:
		if slices.Contains(names, v) {
			return
		}
		fix := "use one of " + strings.Join(names, ", ")
		if meant := Closest(v, names); meant != "" {
			fix = fmt.Sprintf("did you mean %q?", meant)
		}
		c.add(path, v, "unknown value", fix)
	case int64:
		if v < math.MinInt32 || v > math.MaxInt32 || ed.Values().ByNumber(protoreflect.EnumNumber(v)) == nil {
			c.add(path, v, "unknown value", "use one of "+strings.Join(names, ", "))
		}
	default:
		c.add(path, v, "is "+kind(v)+", not a word", "use one of "+strings.Join(names, ", "))
	}
}

func (c *checker) text(v any, path string) {
	if _, ok := v.(string); !ok {
		fix := "write text"
		switch v.(type) {
		case bool, int64, float64:
			fix = fmt.Sprintf("put it in quotes: %q", fmt.Sprint(v))
		}
		c.add(path, v, "is "+kind(v)+", not a string", fix)
	}
}

func (c *checker) boolean(v any, path string) {
	if _, ok := v.(bool); !ok {
		c.add(path, v, "is "+kind(v)+", not a boolean", "write true or false, without quotes")
	}
}

func (c *checker) number(v any, path string) {
	switch v := v.(type) {
	case int64, float64:
		return
	case string:
		if _, err := strconv.ParseFloat(v, 64); err == nil {
			return
		}
	}
	c.add(path, v, "is "+kind(v)+", not a number", "write a number, as in 0.5")
}

// whole checks integers; like Istio's decoder it takes a number in quotes too.
func whole(least, most int64) func(c *checker, v any, path string) {
	return func(c *checker, v any, path string) {
		n, ok := v.(int64)
		if s, text := v.(string); text {
			parsed, err := strconv.ParseInt(s, 10, 64)
			n, ok = parsed, err == nil
		}
		if f, float := v.(float64); float && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			n, ok = int64(f), true
		}
		switch {
		case !ok:
			c.add(path, v, "is "+kind(v)+", not a whole number", "write a whole number, without quotes")
		case n < least || n > most:
			c.add(path, v, "is out of range", fmt.Sprintf("write a whole number from %d to %d", least, most))
		}
	}
}

// duration takes what Istio's decoder takes: Go's form, of which protobuf's ("1.5s") is a part.
func (c *checker) duration(v any, path string) {
	if s, ok := v.(string); ok {
		if _, err := time.ParseDuration(s); err == nil {
			return
		}
	}
	c.add(path, v, "is no duration", `write a number with its unit, as in "5s", "100ms", "1h"`)
}

// timestamp takes what protobuf's JSON does: RFC 3339 with a time zone, from the year 1 on. A date alone, or a time without its zone, is said with what it lacks.
func (c *checker) timestamp(v any, path string) {
	s, ok := v.(string)
	if !ok {
		c.text(v, path)
		return
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
		return
	}
	fix := `write it as in "2030-01-31T00:00:00Z"`
	for form, lacks := range map[string]string{time.DateOnly: "T00:00:00Z", "2006-01-02T15:04:05": "Z"} {
		if _, err := time.Parse(form, s); err == nil {
			fix = fmt.Sprintf("write %q, or with another time zone, as in +01:00", s+lacks)
		}
	}
	c.add(path, s, "is no time with its zone (RFC 3339)", fix)
}
