package decode

import (
	"bytes"
	"iter"
)

// document is a part of a file between two "---" lines.
type document struct {
	text  []byte
	first int // the line of the file that text begins at, from 1
	line  int // the first line that is neither empty nor a comment; 0 when there is none
}

// documents splits a YAML stream (YAML 1.2 section 9.2). A line that begins with "---" or "..." and then ends or
// goes on with white space is a marker wherever it stands, even in a block scalar or a quoted text.
func documents(data []byte) iter.Seq[document] {
	return func(yield func(document) bool) {
		d := document{first: 1}
		start, number := 0, 0
		for at := 0; at < len(data); {
			number++
			end := at + lineLength(data[at:])
			line := data[at:end]
			if marker(line, "---") || marker(line, "...") {
				d.text = data[start:at]
				if d.line != 0 && !yield(d) {
					return
				}
				// What follows "---" on its line belongs to the next document.
				start, d = at+3, document{first: number}
				line = line[3:]
			}
			if d.line == 0 && hasContent(line) {
				d.line = number
			}
			at = end
		}
		d.text = data[start:]
		if d.line != 0 {
			yield(d)
		}
	}
}

// lineLength includes the line's end: "\n", "\r\n" or a lone "\r".
func lineLength(b []byte) int {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0:
		return len(b)
	case b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n':
		return i + 2
	default:
		return i + 1
	}
}

func marker(line []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(mark))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// hasContent says whether a line is more than space, a comment or a directive.
func hasContent(line []byte) bool {
	trimmed := bytes.TrimSpace(line)
	return len(trimmed) > 0 && trimmed[0] != '#' && line[0] != '%'
}
