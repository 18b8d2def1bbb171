package name

import (
	"fmt"
	"math"
	"net/netip"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The field numbers of the resource's proto3 message. What is new gets a new number: readers skip what they do not know.
const (
	fieldHost      protowire.Number = 1
	fieldAddresses protowire.Number = 2
	fieldTTL       protowire.Number = 3
	fieldAliases   protowire.Number = 4
	fieldDefaults  protowire.Number = 5 // a message: defaultswire.go
	fieldNamespace protowire.Number = 6
)

// Marshal returns the proto3 form: equal names give equal bytes.
func (n Name) Marshal() []byte {
	b := appendString(nil, fieldHost, n.Host)
	for _, addr := range n.Addresses {
		b = appendString(b, fieldAddresses, addr.String())
	}
	if n.TTL != 0 {
		b = protowire.AppendTag(b, fieldTTL, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(n.TTL))
	}
	for _, alias := range n.Aliases {
		b = appendString(b, fieldAliases, alias)
	}
	if n.Defaults != nil {
		b = protowire.AppendBytes(protowire.AppendTag(b, fieldDefaults, protowire.BytesType), n.Defaults.marshal())
	}
	if n.Namespace != "" {
		b = appendString(b, fieldNamespace, n.Namespace)
	}
	return b
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

// Unmarshal reads the proto3 form and validates it. Unknown fields are skipped, so that a newer control plane can
// talk to an older agent.
func Unmarshal(b []byte) (Name, error) {
	var n Name
	for len(b) > 0 {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return Name{}, fmt.Errorf("name %q: %w", n.Host, protowire.ParseError(size))
		}
		b = b[size:]
		if size = protowire.ConsumeFieldValue(field, kind, b); size < 0 {
			return Name{}, fmt.Errorf("name %q: field %d: %w", n.Host, field, protowire.ParseError(size))
		}
		if err := n.set(field, kind, b[:size]); err != nil {
			return Name{}, err
		}
		b = b[size:]
	}
	return n, n.Validate()
}

// set takes one field's value, which has been measured.
func (n *Name) set(field protowire.Number, kind protowire.Type, value []byte) error {
	if field == fieldTTL {
		if kind != protowire.VarintType {
			return fmt.Errorf("name %q: ttl: has wire type %d, want a varint", n.Host, kind)
		}
		ttl, _ := protowire.ConsumeVarint(value)
		n.TTL = uint32(min(ttl, math.MaxInt32)) // RFC 2181 section 8: 31 bits
		return nil
	}
	if field != fieldHost && field != fieldAddresses && field != fieldAliases && field != fieldDefaults && field != fieldNamespace {
		return nil
	}
	if kind != protowire.BytesType {
		return fmt.Errorf("name %q: field %d: has wire type %d, want a string", n.Host, field, kind)
	}
	if field == fieldDefaults {
		inner, _ := protowire.ConsumeBytes(value)
		n.Defaults = &Defaults{}
		if err := n.Defaults.unmarshal(inner); err != nil {
			return fmt.Errorf("name %q: defaults: %w", n.Host, err)
		}
		return nil
	}
	text, _ := protowire.ConsumeString(value)
	if !utf8.ValidString(text) {
		return fmt.Errorf("name %q: field %d: %q is not UTF-8", n.Host, field, text)
	}
	switch field {
	case fieldHost:
		n.Host = text
	case fieldNamespace:
		n.Namespace = text
	case fieldAliases:
		n.Aliases = append(n.Aliases, text)
	case fieldAddresses:
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("name %q: addresses[%d] %q: not an IP address; write it without zone or port", n.Host, len(n.Addresses), text)
		}
		n.Addresses = append(n.Addresses, addr.Unmap())
	}
	return nil
}
