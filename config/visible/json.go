package visible

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON writes JSON to a terminal, or wherever it is led: characters that nobody would see as they are, and those that a terminal obeys, are escaped as JSON has
// it, so that it says the same. What is written at once has to be whole characters, as an encoder's values are.
func JSON(w io.Writer) io.Writer { return jsonWriter{w} }

// Encoder writes values so, one a line; what HTML would need is left as it is.
func Encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(JSON(w))
	e.SetEscapeHTML(false)
	return e
}

type jsonWriter struct{ to io.Writer }

func (w jsonWriter) Write(text []byte) (int, error) {
	if _, err := w.to.Write(escapedJSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func escapedJSON(text []byte) []byte {
	if bytes.IndexFunc(text, func(r rune) bool { return r >= 0x7f }) < 0 { // as most is
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r < 0x7f, r == utf8.RuneError, Shows(r):
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}
