package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"unicode"
	"unicode/utf8"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

// Limits of what is read, in bytes. Kubernetes holds objects of at most 1.5 MiB; MaxDocument is also what a document
// may grow to when its YAML aliases are written out.
const (
	MaxFile     = 64 << 20
	MaxDocument = 1 << 20
)

// State says how much of a file could be read.
type State int

const (
	// Whole says that every object of the file is in Objects or in Rejected.
	Whole State = iota
	// Partial says that some document could be parsed, but not whose object it is. Which objects the file no
	// longer holds cannot be told.
	Partial
	// Unreadable says that a document is no YAML, so where documents begin and end cannot be trusted either.
	Unreadable
)

// Result is what a file holds.
type Result struct {
	State    State
	Objects  []config.Object     // in the order of the file
	Rejected []config.Key        // named, but not readable
	Loose    []config.Object     // of Rejected those of which something is known all the same (loosely)
	Findings []admission.Finding // in the order of the file
	Refused  error               // by Bounds: there are no objects then
}

// File reads a file's bytes. name is what origins begin with; a name that ends with ".json" makes syntax errors
// speak of JSON.
func File(name string, data []byte) Result {
	return Within(name, data, Bounds{})
}

// Bounds are those of what somebody else hands in, beside File's; zero: none.
type Bounds struct {
	Bytes   int // of all documents together, their aliases written out
	Objects int
	// Take says of an object what is against reading it, before it is; then nothing is read any more.
	Take func(config.Key) error
}

// Within is File for who bounds what is read. Result.Refused says that it was too much, or what Take said.
func Within(name string, data []byte, b Bounds) Result {
	r := &reader{name: name, bounds: b}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case len(data) > MaxFile:
		r.broken(1, fmt.Sprintf("the file has %d bytes, at most %d are read", len(data), MaxFile), "split it into several files")
	case !utf8.Valid(data):
		r.broken(1, "the file is not UTF-8", "save it as UTF-8 text")
	default:
		for doc := range documents(data) {
			if r.document(doc); r.Refused != nil {
				r.Objects = nil
				break
			}
		}
	}
	return r.Result
}

// reader fills a Result.
type reader struct {
	Result
	name   string
	bounds Bounds
	bytes  int // of the documents until now
	items  int // the same, whatever they are
}

// bound refuses what is read once it is too much. Of what is refused nothing more is said.
func (r *reader) bound() {
	switch b := r.bounds; {
	case r.Refused != nil:
	case b.Bytes > 0 && r.bytes > b.Bytes:
		r.Refused = fmt.Errorf("with their aliases written out the objects have more than %d bytes", b.Bytes)
	case b.Objects > 0 && r.items > b.Objects:
		r.Refused = fmt.Errorf("there are more than %d objects", b.Objects)
	}
}

func (r *reader) origin(line int) string { return fmt.Sprintf("%s:%d", r.name, line) }

// broken reports that the file cannot be read from that line on.
func (r *reader) broken(line int, message, fix string) {
	r.State = Unreadable
	r.Findings = append(r.Findings, admission.Finding{
		Severity: admission.Error, Origin: r.origin(line), Message: message, Fix: fix,
	})
}

// nameless reports a document that does not say which object it is.
func (r *reader) nameless(line int, field, value, message, fix string) {
	r.State = max(r.State, Partial)
	r.Findings = append(r.Findings, admission.Finding{
		Severity: admission.Error, Origin: r.origin(line), Field: field, Value: value, Message: message, Fix: fix,
	})
}

// remark warns of something in a document that may be of any of its objects.
func (r *reader) remark(line int, value, message, fix string) {
	r.Findings = append(r.Findings, admission.Finding{
		Severity: admission.Warning, Origin: r.origin(line), Value: value, Message: message, Fix: fix,
	})
}

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
				if d.line != 0 && !values(d, yield) {
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
			values(d, yield)
		}
	}
}

// values yields a document, and of one that is JSON each value that stands in it: kubectl reads one after the other, and a YAML reader the first alone.
func values(d document, yield func(document) bool) bool {
	at := bytes.IndexByte(d.text, '{')
	if at < 0 || len(bytes.TrimSpace(d.text[:at])) > 0 {
		return yield(d)
	}
	for {
		in := json.NewDecoder(bytes.NewReader(d.text[at:]))
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return yield(d)
		}
		end := at + int(in.InputOffset())
		rest := document{text: d.text[end:], first: d.first + bytes.Count(d.text[:end], []byte("\n"))}
		rest.line = rest.first
		next := bytes.IndexFunc(rest.text, func(c rune) bool { return !unicode.IsSpace(c) })
		if next < 0 || rest.text[next] != '{' {
			return yield(d)
		}
		d.text = d.text[:end]
		if !yield(d) {
			return false
		}
		rest.line += bytes.Count(rest.text[:next], []byte("\n"))
		d, at = rest, next
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
