package manifest

import (
	"bytes"
	"iter"
)

// document is a part of a file: the lines before it that are no content (separator, comments, blank), and its content.
type document struct {
	line    int // of the file, counted from 1, where the document begins
	before  []byte
	content []byte
}

// documents cuts a file at its lines "---" (https://yaml.org/spec/1.2.2/#912-document-markers). Together they are the file.
func documents(file []byte) iter.Seq[document] {
	return func(yield func(document) bool) {
		d := document{line: 1}
		line := 0
		for text := range bytes.Lines(file) {
			line++
			if separates(text) && line > 1 {
				if !yield(d) {
					return
				}
				d = document{line: line}
			}
			if d.content == nil && !isContent(text) {
				d.before = append(d.before, text...)
			} else {
				d.content = append(d.content, text...)
			}
		}
		yield(d)
	}
}

func separates(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n"))
}

// isContent tells content from what a document may begin with. A separator with content behind it is content.
func isContent(line []byte) bool {
	if separates(line) {
		line = line[3:]
	}
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#' && line[0] != '%'
}
