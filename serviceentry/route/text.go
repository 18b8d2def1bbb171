package route

import (
	"regexp"
	"strings"
)

// TextKind says how a Text compares.
type TextKind uint8

// The kinds. Present holds for every value that is there, also for "".
const (
	Present TextKind = iota
	Exact
	Prefix
	Regex // RE2, of the whole value
	// Elements is of a path: the value, or what is below it by whole elements. It does not end with "/".
	Elements
)

// Text is a StringMatch: https://istio.io/latest/docs/reference/config/networking/virtual-service/#StringMatch
type Text struct {
	Kind  TextKind
	Value string `json:",omitempty"`

	re *regexp.Regexp // of Regex, for the whole value; nil where it cannot be compiled, and then nothing matches
}

// NewText makes one. An expression that CheckRegex does not take matches nothing; admission refuses it.
func NewText(kind TextKind, value string) Text {
	t := Text{Kind: kind, Value: value}
	if kind == Regex && CheckRegex(value) == nil {
		if re, err := regexp.Compile(`\A(?:` + latin1(value) + `)\z`); err == nil {
			t.re = re
		}
	}
	return t
}

// Matches says whether a value is meant.
func (t Text) Matches(value string) bool {
	switch t.Kind {
	case Present:
		return true
	case Exact:
		return value == t.Value
	case Prefix:
		return strings.HasPrefix(value, t.Value)
	case Elements:
		rest, ok := strings.CutPrefix(value, t.Value)
		return ok && (rest == "" || rest[0] == '/')
	default:
		return t.re != nil && t.re.MatchString(latin1(value))
	}
}

// works says whether a proxy can be told of it.
func (t *Text) works() bool {
	return t == nil || t.Kind != Regex || t.re != nil
}

// folded says whether a value is meant by an exact text or a prefix, where the case of ASCII letters does not count.
func (t Text) folded(value string) bool {
	switch {
	case t.Kind == Exact:
		return lower(value) == lower(t.Value)
	case t.Kind == Prefix:
		return strings.HasPrefix(lower(value), lower(t.Value))
	default:
		return t.Matches(value)
	}
}

// lower is a text with ASCII letters in lower case; other bytes stay, as in Envoy.
func lower(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
