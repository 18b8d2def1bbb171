package limit

import "math"

// Odd is what makes a question look like a tunnel's. Each of these also has honest uses, at a low rate.
type Odd uint8

// What is odd.
const (
	Usual  Odd = iota
	Type       // a type that resolvers of host names do not ask for, as TXT, NULL or ANY
	Long       // a long name or label
	Random     // a label that looks like encoded data
	OddCount
)

// String is the oddity in metrics and reasons.
func (o Odd) String() string { return [...]string{"usual", "type", "long", "random"}[o] }

// Bounds of what host names look like, in bytes.
const (
	longName     = 150
	longLabel    = 50
	encodedLabel = 24 // shorter ones say too little about themselves
	encodedBits  = 3.9
	hexLabel     = 32
)

// usualTypes are those that applications, mail and certificate software and validating resolvers ask for (RFC 1035,
// 2782, 3596, 4034, 3403, 8659, 9460).
var usualTypes = map[uint16]bool{
	1: true, 2: true, 5: true, 6: true, 12: true, 15: true, 28: true, 33: true, 35: true, 39: true, 43: true, 46: true,
	47: true, 48: true, 50: true, 51: true, 52: true, 64: true, 65: true, 257: true,
}

// OddityOf looks at a question: its name in lower-case wire format, and its type.
func OddityOf(name []byte, kind uint16) Odd {
	if !usualTypes[kind] {
		return Type
	}
	if len(name) > longName {
		return Long
	}
	for len(name) > 1 {
		end := 1 + int(name[0])
		if end > len(name) {
			break
		}
		label := name[1:end]
		if len(label) > longLabel {
			return Long
		}
		if isEncoded(label) {
			return Random
		}
		name = name[end:]
	}
	return Usual
}

// isEncoded tells base32 and base64, by the entropy of their letters, and hexadecimal from words.
func isEncoded(label []byte) bool {
	if len(label) < encodedLabel {
		return false
	}
	var counts [256]int
	hex := true
	for _, c := range label {
		counts[c]++
		hex = hex && ('0' <= c && c <= '9' || 'a' <= c && c <= 'f')
	}
	if hex && len(label) >= hexLabel {
		return true
	}
	bits := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(label))
			bits -= p * math.Log2(p)
		}
	}
	return bits > encodedBits
}
