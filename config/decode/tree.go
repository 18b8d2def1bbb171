package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// syntaxError is a place that cannot be parsed.
type syntaxError struct {
	line         int // of the file
	message, fix string
}

// toJSON turns a document into JSON; kubectl reads YAML in the same way, by the same library (YAML 1.1: yes and on
// are booleans).
func toJSON(d document, jsonFile bool) ([]byte, *syntaxError) {
	if len(d.text) > MaxDocument {
		return nil, &syntaxError{d.line, fmt.Sprintf("the document has %d bytes, at most %d are read", len(d.text), MaxDocument), "split it; Kubernetes would not take it either"}
	}
	if trimmed := bytes.TrimSpace(d.text); len(trimmed) > 0 && trimmed[0] == '{' {
		if plain, err := fromJSON(d, trimmed); plain != nil || (err != nil && (jsonFile || json.Valid(trimmed))) {
			return plain, err
		}
	}
	if err := checkAliases(d); err != nil {
		return nil, err
	}
	if err := checkBehind(d); err != nil {
		return nil, err
	}
	plain, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil && duplicate.MatchString(err.Error()) {
		fine, problem := merges(d)
		if problem != nil {
			return nil, problem
		}
		if fine {
			plain, err = yaml.YAMLToJSON(d.text)
		}
	}
	if err != nil {
		return nil, yamlError(d, err)
	}
	return plain, nil
}

// fromJSON checks a document that is JSON already: tabs are fine there, which YAML would refuse.
func fromJSON(d document, text []byte) ([]byte, *syntaxError) {
	var v any
	strictErrs, err := sigsjson.UnmarshalStrict(text, &v)
	if err != nil {
		line := d.line
		var at *json.SyntaxError
		if plain := json.Unmarshal(text, &v); errors.As(plain, &at) {
			line += bytes.Count(text[:min(int(at.Offset), len(text))], []byte("\n"))
		}
		return nil, &syntaxError{line, "not JSON: " + err.Error(), "mend the syntax there"}
	}
	if len(strictErrs) > 0 {
		return nil, &syntaxError{d.line, strictErrs[0].Error(), "keep one of the two"}
	}
	return text, nil
}

var (
	lineOf    = regexp.MustCompile(`line (\d+): `)
	duplicate = regexp.MustCompile(`key "?(.*?)"? already set in map`)
)

// yamlError turns the library's words into ours, and its line into the file's.
func yamlError(d document, err error) *syntaxError {
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	e := &syntaxError{line: d.line, fix: "mend the syntax there or just above"}
	if m := lineOf.FindStringSubmatchIndex(message); m != nil {
		n, _ := strconv.Atoi(message[m[2]:m[3]])
		e.line = d.first + max(n-1, 0)
		message = strings.TrimPrefix(message[m[1]:], "\n")
	}
	if m := duplicate.FindStringSubmatch(message); m != nil {
		e.message, e.fix = fmt.Sprintf("the key %q is there twice", m[1]), "keep one of the two"
		return e
	}
	if i := strings.IndexByte(message, '\n'); i >= 0 {
		message = message[:i]
	}
	if line := lineText(d, e.line); strings.Contains(message, "cannot start any token") && strings.Contains(line, "\t") {
		e.message, e.fix = "a tab in the indentation", "indent with spaces; YAML allows no tabs there"
		return e
	}
	if better := meaningless(d, message); better != nil {
		return better
	}
	e.message = "not YAML: " + message
	return e
}

var (
	unfit   = regexp.MustCompile("^cannot decode \\S+ `(.*)` as a (\\S+)$")
	missing = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// meaningless finds the place of what is YAML, and means nothing: the library does not say it. nil where it is something else.
func meaningless(d document, message string) *syntaxError {
	e := &syntaxError{line: d.line}
	at := func(text string) {
		if i := bytes.Index(d.text, []byte(text)); i >= 0 {
			e.line = d.first + bytes.Count(d.text[:i], []byte("\n"))
		}
	}
	switch m := unfit.FindStringSubmatch(message); {
	case m != nil:
		at(m[2])
		e.message, e.fix = fmt.Sprintf("the tag %s does not fit the value %q", m[2], m[1]), "write a value of that kind, or remove the tag"
	case missing.MatchString(message):
		name := missing.FindStringSubmatch(message)[1]
		at("*" + name)
		e.message, e.fix = fmt.Sprintf("there is no anchor &%s before *%s in this document", name, name), "write the value out; an anchor is known within its own document only"
	case strings.HasPrefix(message, "map merge requires map"):
		at("<<")
		e.message, e.fix = `"<<" merges what is no mapping`, `write "<<: *name" with the anchor of a mapping, or a list of such`
	case strings.HasPrefix(message, "invalid map key"), strings.HasPrefix(message, "unsupported map key"):
		e.message, e.fix = "a key is no text: "+message, "write keys as text; a value in braces of a template is to be in quotes"
	default:
		return nil
	}
	return e
}

// lineText returns a line of the file that is in the document.
func lineText(d document, line int) string {
	lines := strings.Split(string(d.text), "\n")
	if i := line - d.first; i >= 0 && i < len(lines) {
		return lines[i]
	}
	return ""
}
