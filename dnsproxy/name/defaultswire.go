package name

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The field numbers of the message in fieldRest, and of the one in its fieldForward.
const (
	restRefuse       protowire.Number = 1
	restLocal        protowire.Number = 2
	restDecidedBy    protowire.Number = 3
	restRate         protowire.Number = 4
	restOddRate      protowire.Number = 5
	restUpstreams    protowire.Number = 6
	restForward      protowire.Number = 7
	restAllowPrivate protowire.Number = 8
	restKeepECH      protowire.Number = 9
	restNever        protowire.Number = 10
	restDeny         protowire.Number = 11

	forwardDomain    protowire.Number = 1
	forwardUpstreams protowire.Number = 2
)

func (r *Defaults) marshal() []byte {
	var b []byte
	if r.Refuse {
		b = protowire.AppendTag(b, restRefuse, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	if r.KeepECH {
		b = protowire.AppendTag(b, restKeepECH, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	if r.DenyUnrecorded {
		b = protowire.AppendTag(b, restDeny, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	b = appendStrings(b, restLocal, r.Local)
	if r.DecidedBy != "" {
		b = appendString(b, restDecidedBy, r.DecidedBy)
	}
	b = appendDouble(b, restRate, r.Rate)
	b = appendDouble(b, restOddRate, r.OddRate)
	b = appendStrings(b, restUpstreams, r.Upstreams)
	for _, f := range r.Forward {
		inner := appendStrings(appendString(nil, forwardDomain, f.Domain), forwardUpstreams, f.Upstreams)
		b = protowire.AppendBytes(protowire.AppendTag(b, restForward, protowire.BytesType), inner)
	}
	return appendStrings(appendStrings(b, restAllowPrivate, r.AllowPrivate), restNever, r.Never)
}

func appendStrings(b []byte, field protowire.Number, all []string) []byte {
	for _, s := range all {
		b = appendString(b, field, s)
	}
	return b
}

func appendDouble(b []byte, field protowire.Number, value float64) []byte {
	if value == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(value))
}

// defaultsFields are the types of the fields that are known; others are skipped.
var defaultsFields = map[protowire.Number]protowire.Type{
	restRefuse: protowire.VarintType, restLocal: protowire.BytesType, restDecidedBy: protowire.BytesType,
	restRate: protowire.Fixed64Type, restOddRate: protowire.Fixed64Type, restUpstreams: protowire.BytesType,
	restForward: protowire.BytesType, restAllowPrivate: protowire.BytesType, restNever: protowire.BytesType, restKeepECH: protowire.VarintType,
	restDeny: protowire.VarintType,
}

func (r *Defaults) unmarshal(b []byte) error {
	return fields(b, defaultsFields, func(field protowire.Number, value []byte) error {
		switch field {
		case restRefuse:
			v, _ := protowire.ConsumeVarint(value)
			r.Refuse = v != 0
			return nil
		case restKeepECH:
			v, _ := protowire.ConsumeVarint(value)
			r.KeepECH = v != 0
			return nil
		case restDeny:
			v, _ := protowire.ConsumeVarint(value)
			r.DenyUnrecorded = v != 0
			return nil
		case restRate, restOddRate:
			bits, _ := protowire.ConsumeFixed64(value)
			if field == restRate {
				r.Rate = math.Float64frombits(bits)
			} else {
				r.OddRate = math.Float64frombits(bits)
			}
			return nil
		case restForward:
			inner, _ := protowire.ConsumeBytes(value)
			var f Forward
			err := f.unmarshal(inner)
			r.Forward = append(r.Forward, f)
			return err
		}
		text, err := text(value)
		switch field {
		case restLocal:
			r.Local = append(r.Local, text)
		case restDecidedBy:
			r.DecidedBy = text
		case restUpstreams:
			r.Upstreams = append(r.Upstreams, text)
		case restAllowPrivate:
			r.AllowPrivate = append(r.AllowPrivate, text)
		case restNever:
			r.Never = append(r.Never, text)
		}
		return err
	})
}

var forwardFields = map[protowire.Number]protowire.Type{forwardDomain: protowire.BytesType, forwardUpstreams: protowire.BytesType}

func (f *Forward) unmarshal(b []byte) error {
	return fields(b, forwardFields, func(field protowire.Number, value []byte) error {
		text, err := text(value)
		if field == forwardDomain {
			f.Domain = text
		} else {
			f.Upstreams = append(f.Upstreams, text)
		}
		return err
	})
}

// fields gives each field that is known to take, as it is on the wire without its tag.
func fields(b []byte, known map[protowire.Number]protowire.Type, take func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		if size = protowire.ConsumeFieldValue(field, kind, b); size < 0 {
			return fmt.Errorf("field %d: %w", field, protowire.ParseError(size))
		}
		if want, ok := known[field]; ok {
			if kind != want {
				return fmt.Errorf("field %d: has wire type %d, want %d", field, kind, want)
			}
			if err := take(field, b[:size]); err != nil {
				return fmt.Errorf("field %d: %w", field, err)
			}
		}
		b = b[size:]
	}
	return nil
}

func text(value []byte) (string, error) {
	s, _ := protowire.ConsumeString(value)
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("%q is not UTF-8", s)
	}
	return s, nil
}
