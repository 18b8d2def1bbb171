// Package visible makes texts that others wrote safe to be read, on terminals, on pages and in what people put into files: what a terminal would obey,
// what turns the direction of writing, what nobody sees, and marks that are heaped on one letter are shown as their codes.
//
// In: a text. Out: one that says all of it. It imports only the standard library.
package visible

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostMarks is how many marks a letter may have: as many as written languages need. More of them reach into the lines around.
const mostMarks = 4

// Text shows a text in one line.
func Text(s string) string { return shown(s, false) }

// Lines is Text, of a text whose lines end where they end.
func Lines(s string) string { return shown(s, true) }

func shown(s string, lines bool) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	last, marks := none, 0
	for i, size := 0, 0; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
			last = none
		case r == '\n' && lines:
			b.WriteByte('\n')
			last = none
		case Shows(r) && (marks == 0 || last != none && marks <= mostMarks), r == emojiStyle && unicode.Is(unicode.So, last):
			b.WriteRune(r)
			last = r
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			last = none
		}
	}
	return b.String()
}

// none is in the place of a character that a mark could be on.
const none = rune(-1)

// isPlain knows what most texts are.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// emojiStyle says that the symbol before it is a coloured one.
const emojiStyle = '\ufe0f'

// Shows says whether somebody who reads a character sees it: it prints, it has a form of its own, and it stands for no other one that was lost.
func Shows(r rune) bool {
	return unicode.IsPrint(r) && r != utf8.RuneError && r != blankBraille && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// blankBraille is a symbol of no dots.
const blankBraille = '\u2800'
