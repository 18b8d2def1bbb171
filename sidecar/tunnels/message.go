package tunnels

import "google.golang.org/protobuf/encoding/protowire"

// Resources are read by the numbers of their fields: what is looked for is a few of them.

// inside is the first field, by number, of the first field of a message, and so on; nil where there is none.
func inside(message []byte, path ...protowire.Number) []byte {
	for _, number := range path {
		var found []byte
		fields(message, number, func(value []byte) {
			if found == nil {
				found = value
			}
		})
		message = found
	}
	return message
}

// fields are a message's of a number, where they are bytes.
func fields(message []byte, number protowire.Number, each func([]byte)) {
	walk(message, func(tag protowire.Number, kind protowire.Type, at []byte) {
		if value, _ := protowire.ConsumeBytes(at); tag == number && kind == protowire.BytesType {
			each(value)
		}
	})
}

// varint is a number of a message, the last one of its field; 0 where it has none.
func varint(message []byte, number protowire.Number) (value uint64) {
	walk(message, func(tag protowire.Number, kind protowire.Type, at []byte) {
		if tag == number && kind == protowire.VarintType {
			value, _ = protowire.ConsumeVarint(at)
		}
	})
	return value
}

// walk goes over a message's fields, as far as it is one: at begins with a field's value.
func walk(message []byte, each func(tag protowire.Number, kind protowire.Type, at []byte)) {
	for len(message) > 0 {
		tag, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		m := protowire.ConsumeFieldValue(tag, kind, message)
		if m < 0 {
			return
		}
		each(tag, kind, message)
		message = message[m:]
	}
}
