package console

import (
	"html/template"
	"regexp"
	"strings"

	"github.com/sallyport/sallyport/config/visible"
)

// said is a text that others wrote, on a page. In what html/template takes for plain text (SVG's titles, too) it is visible.Text.
func said(s string) template.HTML { return inHTML(s, template.HTMLEscapeString) }

// soft is the same, broken behind its punctuation first.
func soft(s string) template.HTML {
	return inHTML(s, func(s string) string {
		var b strings.Builder
		for part := range strings.SplitAfterSeq(s, "") {
			b.WriteString(template.HTMLEscapeString(part))
			if strings.Contains("./~-_:@", part) {
				b.WriteString("<wbr>")
			}
		}
		return b.String()
	})
}

// fromRight are words of letters that are written from right to left (the blocks of Unicode that are for such, DerivedBidiClass.txt).
var fromRight = func() *regexp.Regexp {
	const letters = `[\x{590}-\x{8ff}\x{fb1d}-\x{fdff}\x{fe70}-\x{feff}\x{10800}-\x{10fff}\x{1e800}-\x{1efff}]+`
	return regexp.MustCompile(letters + `(?: +` + letters + `)*`)
}()

// inHTML writes a text. What is written from right to left is kept to itself, or it would turn what stands beside it: of a host and its port, of a path
// and the status that follows, the second one would be read first.
func inHTML(s string, write func(string) string) template.HTML {
	s = visible.Text(s)
	var b strings.Builder
	at := 0
	for _, in := range fromRight.FindAllStringIndex(s, -1) {
		b.WriteString(write(s[at:in[0]]) + "<bdi>" + write(s[in[0]:in[1]]) + "</bdi>")
		at = in[1]
	}
	b.WriteString(write(s[at:]))
	return template.HTML(b.String()) //nolint:gosec // write escapes each part
}
