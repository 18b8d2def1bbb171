package query

import "strings"

// globLike turns a glob (* any text, ? one character, nothing else is special) into a pattern for
// LIKE … ESCAPE '\'.
func globLike(glob string) string {
	var b strings.Builder
	for _, r := range glob {
		switch r {
		case '*':
			b.WriteByte('%')
		case '?':
			b.WriteByte('_')
		case '%', '_', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// globMatch says whether the whole text fits the glob, in time proportional to the product of their lengths at worst.
func globMatch(glob, text string) bool {
	g, t := []rune(glob), []rune(text)
	star, mark := -1, 0 // the last * and where its text ends so far
	gi, ti := 0, 0
	for ti < len(t) {
		switch {
		case gi < len(g) && g[gi] == '*':
			star, mark = gi, ti
			gi++
		case gi < len(g) && (g[gi] == '?' || g[gi] == t[ti]):
			gi++
			ti++
		case star >= 0:
			mark++
			gi, ti = star+1, mark
		default:
			return false
		}
	}
	for gi < len(g) && g[gi] == '*' {
		gi++
	}
	return gi == len(g)
}
