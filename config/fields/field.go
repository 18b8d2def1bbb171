package fields

import (
	"google.golang.org/protobuf/proto"
)

// Fate is what becomes of a field that somebody sets.
type Fate int

// The fates.
const (
	// Applied fields do what the API says.
	Applied Fate = iota + 1
	// Idle fields ask proxies for nothing: names, words for people, and what the API itself calls without effect.
	Idle
	// Warned fields are accepted and not applied. Traffic is no less closed, checked or encrypted for it.
	Warned
	// Refused fields are not applied, and to ignore them would allow, or expose, what the user wanted otherwise. The object
	// is refused.
	Refused
)

// String gives the word that docs/fields.md uses.
func (f Fate) String() string {
	return [...]string{"", "applied", "idle", "warned", "refused"}[f]
}

// Field is one line of a kind's table.
type Field struct {
	// Path names the field as JSON does, below the spec: "trafficPolicy.tls.mode". Lists and maps have no index. It is empty
	// for the object as a whole.
	Path string
	Fate Fate
	// When limits the line to some values: v is the field's value, a proto.Message, a string (of enums the name), a number,
	// a bool, or a slice of these. Several lines may have a path; the first whose When holds counts, and when none does,
	// nothing is said. nil is always.
	When func(v any) bool
	Why  string // what happens instead, or, of an applied field, what is worth knowing
	Fix  string // what to do about it
}

// Kind is the table of one kind.
type Kind struct {
	Name    string // as users write it
	API     string // its group and version
	Message proto.Message
	Fields  []Field
}

// Line finds the line of a path, for any value.
func (k *Kind) Line(path string) (Field, bool) {
	for _, f := range k.Fields {
		if f.Path == path {
			return f, true
		}
	}
	return Field{}, false
}

// lineFor finds the line that counts for a value.
func (k *Kind) lineFor(path string, v any) (line Field, counts bool) {
	for _, f := range k.Fields {
		if f.Path == path && (f.When == nil || f.When(v)) {
			return f, true
		}
	}
	return Field{}, false
}

// is holds for one of the values, as text.
func is(values ...string) func(any) bool {
	return func(v any) bool {
		s, _ := v.(string)
		for _, x := range values {
			if x == s {
				return true
			}
		}
		return false
	}
}

// isFalse holds for false.
func isFalse(v any) bool {
	b, ok := v.(bool)
	return ok && !b
}

// applied makes the lines of several fields that do what the API says.
func applied(paths ...string) []Field { return alike(Applied, paths) }

// idle makes the lines of several fields that ask proxies for nothing.
func idle(paths ...string) []Field { return alike(Idle, paths) }

// warned makes the lines of several fields that are warned of in the same words.
func warned(why, fix string, paths ...string) []Field {
	out := alike(Warned, paths)
	for i := range out {
		out[i].Why, out[i].Fix = why, fix
	}
	return out
}

// refused makes the lines of several fields that are refused in the same words.
func refused(why, fix string, paths ...string) []Field {
	out := alike(Refused, paths)
	for i := range out {
		out[i].Why, out[i].Fix = why, fix
	}
	return out
}

func alike(fate Fate, paths []string) []Field {
	out := make([]Field, len(paths))
	for i, p := range paths {
		out[i] = Field{Path: p, Fate: fate}
	}
	return out
}

// below puts lines of a message that occurs in several places under one of them.
func below(prefix string, lines []Field) []Field {
	out := make([]Field, len(lines))
	for i, f := range lines {
		out[i] = f
		out[i].Path = prefix + "." + f.Path
	}
	return out
}
