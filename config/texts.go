package config

import (
	"iter"
	"strings"
)

// Texts are some texts without NUL in one: most objects have one host, and are in one file, and what is known of that takes nothing beside it then. The zero value has none.
type Texts string

// TextsOf puts a list together.
func TextsOf(list []string) Texts {
	switch {
	case len(list) == 0:
		return ""
	case len(list) == 1 && list[0] != "":
		return Texts(list[0])
	default:
		return Texts(strings.Join(list, "\x00") + "\x00")
	}
}

// All goes through them, in the order in which they were given.
func (t Texts) All() iter.Seq[string] {
	if t == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(strings.TrimSuffix(string(t), "\x00"), "\x00")
}
