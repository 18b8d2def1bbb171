package name

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The field numbers of the message in fieldDefaults, and of the one in its defaultsForward.
const (
	defaultsRefuse       protowire.Number = 1
	defaultsLocal        protowire.Number = 2
	defaultsDecidedBy    protowire.Number = 3
	defaultsRate         protowire.Number = 4
	defaultsOddRate      protowire.Number = 5
	defaultsUpstreams    protowire.Number = 6
	defaultsForward      protowire.Number = 7
	defaultsAllowPrivate protowire.Number = 8
	defaultsKeepECH      protowire.Number = 9
	defaultsNever        protowire.Number = 10
	defaultsDeny         protowire.Number = 11
	defaultsNeverTrace   protowire.Number = 12

	forwardDomain    protowire.Number = 1
	forwardUpstreams protowire.Number = 2
)

func (r *Defaults) marshal() []byte {
	var b []byte
	if r.Refuse {
		b = protowire.AppendTag(b, defaultsRefuse, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	if r.KeepECH {
		b = protowire.AppendTag(b, defaultsKeepECH, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	if r.DenyUnrecorded {
		b = protowire.AppendTag(b, defaultsDeny, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	if r.NeverTrace {
		b = protowire.AppendTag(b, defaultsNeverTrace, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	b = appendStrings(b, defaultsLocal, r.Local)
	if r.DecidedBy != "" {
		b = appendString(b, defaultsDecidedBy, r.DecidedBy)
	}
	b = appendDouble(b, defaultsRate, r.Rate)
	b = appendDouble(b, defaultsOddRate, r.OddRate)
	b = appendStrings(b, defaultsUpstreams, r.Upstreams)
	for _, f := range r.Forward {
		inner := appendStrings(appendString(nil, forwardDomain, f.Domain), forwardUpstreams, f.Upstreams)
		b = protowire.AppendBytes(protowire.AppendTag(b, defaultsForward, protowire.BytesType), inner)
	}
	return appendStrings(appendStrings(b, defaultsAllowPrivate, r.AllowPrivate), defaultsNever, r.Never)
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
	defaultsRefuse: protowire.VarintType, defaultsLocal: protowire.BytesType, defaultsDecidedBy: protowire.BytesType,
	defaultsRate: protowire.Fixed64Type, defaultsOddRate: protowire.Fixed64Type, defaultsUpstreams: protowire.BytesType,
	defaultsForward: protowire.BytesType, defaultsAllowPrivate: protowire.BytesType, defaultsNever: protowire.BytesType, defaultsKeepECH: protowire.VarintType,
	defaultsDeny: protowire.VarintType, defaultsNeverTrace: protowire.VarintType,
}

func (r *Defaults) unmarshal(b []byte) error {
	return fields(b, defaultsFields, func(field protowire.Number, value []byte) error {
		switch field {
		case defaultsRefuse:
			v, _ := protowire.ConsumeVarint(value)
			r.Refuse = v != 0
			return nil
		case defaultsKeepECH:
			v, _ := protowire.ConsumeVarint(value)
			r.KeepECH = v != 0
			return nil
		case defaultsDeny:
			v, _ := protowire.ConsumeVarint(value)
			r.DenyUnrecorded = v != 0
			return nil
		case defaultsNeverTrace:
			v, _ := protowire.ConsumeVarint(value)
			r.NeverTrace = v != 0
			return nil
		case defaultsRate, defaultsOddRate:
			bits, _ := protowire.ConsumeFixed64(value)
			if field == defaultsRate {
				r.Rate = math.Float64frombits(bits)
			} else {
				r.OddRate = math.Float64frombits(bits)
			}
			return nil
		case defaultsForward:
			inner, _ := protowire.ConsumeBytes(value)
			var f Forward
			err := f.unmarshal(inner)
			r.Forward = append(r.Forward, f)
			return err
		}
		text, err := text(value)
		switch field {
		case defaultsLocal:
			r.Local = append(r.Local, text)
		case defaultsDecidedBy:
			r.DecidedBy = text
		case defaultsUpstreams:
			r.Upstreams = append(r.Upstreams, text)
		case defaultsAllowPrivate:
			r.AllowPrivate = append(r.AllowPrivate, text)
		case defaultsNever:
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
