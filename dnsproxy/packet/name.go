package packet

import "strings"

// maxName is the longest name in wire format (RFC 1035 section 2.3.4).
const maxName = 255

// nameLen measures the uncompressed name at the start of b, its root label included. 0: there is none.
func nameLen(b []byte) int {
	for i := 0; i < len(b) && i < maxName; {
		label := int(b[i])
		if label == 0 {
			return i + 1
		}
		if label > 63 {
			return 0
		}
		i += 1 + label
	}
	return 0
}

// skipName measures the name at the start of b, which may end in a compression pointer. 0: there is none.
func skipName(b []byte) int {
	for i := 0; i < len(b) && i < maxName; {
		switch label := int(b[i]); {
		case label == 0:
			return i + 1
		case label >= 0xc0:
			if i+2 > len(b) {
				return 0
			}
			return i + 2
		case label > 63:
			return 0
		default:
			i += 1 + label
		}
	}
	return 0
}

// AppendLower appends the lower-case form of wire: lengths are below 'A', so bytes can be folded blindly.
func AppendLower(dst, wire []byte) []byte {
	for _, c := range wire {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// AppendName appends host, a validated host name in text without escapes, in lower-case wire format.
func AppendName(dst []byte, host string) []byte {
	host = strings.TrimSuffix(host, ".")
	for host != "" {
		label, rest, _ := strings.Cut(host, ".")
		dst = append(dst, byte(len(label)))
		dst = AppendLower(dst, []byte(label))
		host = rest
	}
	return append(dst, 0)
}

// Text is the lower-case text form of the wire name, without the last dot, for people, logs and policies. Bytes
// that a host name cannot have are escaped as in a zone file (RFC 1035 section 5.1).
func Text(wire []byte) string {
	out := make([]byte, 0, len(wire))
	for len(wire) > 1 {
		size := int(wire[0])
		if len(wire) < 1+size {
			break
		}
		if len(out) > 0 {
			out = append(out, '.')
		}
		for _, c := range wire[1 : 1+size] {
			switch {
			case 'A' <= c && c <= 'Z':
				out = append(out, c+'a'-'A')
			case c <= ' ' || c >= 0x7f:
				out = append(out, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
			case c == '.' || c == '\\' || c == '"' || c == ';' || c == '(' || c == ')' || c == '@' || c == '$':
				out = append(out, '\\', c)
			default:
				out = append(out, c)
			}
		}
		wire = wire[1+size:]
	}
	return string(out)
}

// Parent cuts the first label off the wire name. The root has no parent: nil.
func Parent(wire []byte) []byte {
	if len(wire) < 2 {
		return nil
	}
	return wire[1+int(wire[0]):]
}
