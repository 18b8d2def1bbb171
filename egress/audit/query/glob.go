package query

import "strings"

// A glob is a text in which * is any text and ? one character. Behind \ these two, and \ itself, are what they are; before anything else \ is itself.
// What stands in the log may hold any of them, since others wrote it: whoever looks for it as it is uses Literally.

// special are the characters that \ makes what they are.
const special = `*?\`

// Literally is a glob that fits a text and no other.
func Literally(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(text)
}

// pieces reads a glob: f is called with each character, and whether it stands for others.
func pieces(glob string, f func(r rune, wild bool)) {
	escaped := false
	for _, r := range glob {
		switch is := strings.ContainsRune(special, r); {
		case escaped:
			if escaped = false; !is {
				f('\\', false)
			}
			f(r, false)
		case r == '\\':
			escaped = true
		default:
			f(r, is)
		}
	}
	if escaped {
		f('\\', false)
	}
}

// plainGlob is the text that a glob fits, where it fits one only.
func plainGlob(glob string) (text string, only bool) {
	var b strings.Builder
	only = true
	pieces(glob, func(r rune, wild bool) {
		only = only && !wild
		b.WriteRune(r)
	})
	return b.String(), only
}

// globLike turns a glob into a pattern for LIKE … ESCAPE '\'.
func globLike(glob string) string {
	var b strings.Builder
	pieces(glob, func(r rune, wild bool) {
		switch {
		case wild && r == '*':
			b.WriteByte('%')
		case wild:
			b.WriteByte('_')
		case strings.ContainsRune(`%_\`, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	})
	return b.String()
}

// What of a glob stands for others, in place of characters, which are not negative.
const anyText, oneCharacter = -1, -2

// globMatch says whether the whole text fits the glob, in time proportional to the product of their lengths at worst.
func globMatch(glob, text string) bool {
	g, t := make([]rune, 0, len(glob)), []rune(text)
	pieces(glob, func(r rune, wild bool) {
		switch {
		case wild && r == '*':
			r = anyText
		case wild:
			r = oneCharacter
		}
		g = append(g, r)
	})
	star, mark := -1, 0 // the last * and where its text ends so far
	gi, ti := 0, 0
	for ti < len(t) {
		switch {
		case gi < len(g) && g[gi] == anyText:
			star, mark = gi, ti
			gi++
		case gi < len(g) && (g[gi] == oneCharacter || g[gi] == t[ti]):
			gi++
			ti++
		case star >= 0:
			mark++
			gi, ti = star+1, mark
		default:
			return false
		}
	}
	for gi < len(g) && g[gi] == anyText {
		gi++
	}
	return gi == len(g)
}

// around is a glob for what has a part that fits.
func around(glob string) string {
	glob = strings.TrimLeft(glob, "*")
	for {
		less, is := strings.CutSuffix(glob, "*")
		if escapes := len(less) - len(strings.TrimRight(less, `\`)); !is || escapes%2 == 1 {
			return "*" + glob + "*"
		}
		glob = less
	}
}

// unquoted is a glob of what is written without quotes: a \ that makes nothing what it is stands for itself.
func unquoted(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		b.WriteByte(text[i])
		switch {
		case text[i] != '\\':
		case i+1 < len(text) && strings.IndexByte(special, text[i+1]) >= 0:
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}
