package decode

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// checkBehind refuses a document behind whose end something stands: readers of YAML take the first value, and leave the rest out without a word. It can only be where the document does not begin as
// nearly all do, with a key at the line's beginning.
func checkBehind(d document) *syntaxError {
	text := d.text
	for len(text) > 0 { // lines that say nothing
		line := text[:lineLength(text)]
		if hasContent(line) {
			break
		}
		text = text[len(line):]
	}
	if len(text) == 0 || unicode.IsLetter(rune(text[0])) {
		return nil
	}
	stream := yaml.NewDecoder(bytes.NewReader(d.text))
	var first, second yaml.Node
	if stream.Decode(&first) != nil {
		return nil // the reader proper reports it, in its words
	}
	err := stream.Decode(&second)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	line := yamlError(d, err).line
	if strings.Contains(err.Error(), "<document start>") {
		line++ // it counts from 0 there
	}
	return &syntaxError{line, "something stands behind the object that ends here, and would be left out", `write "---" on a line of its own between objects, or mend the indentation`}
}
