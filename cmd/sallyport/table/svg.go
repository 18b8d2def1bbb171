package table

import (
	"html/template"
	"io"
	"strings"
	"unicode/utf8"
)

// Sizes, in SVG's pixels: of a letter of the fixed-width font, of a line, and of the space around a text.
const (
	letter  = 8
	line    = 26
	padding = 10
)

// drawing is what the template draws.
type drawing struct {
	Table
	Width, Height int
	Lines         []drawnLine
}

type drawnLine struct {
	Y, TextY int
	Head     bool
	Cells    []drawnCell
}

type drawnCell struct {
	X, TextX, Width int
	Text, Class     string
}

// SVG draws it: without scripts, with texts that can be selected, for light and dark pages and for screen readers
// (https://www.w3.org/TR/svg-aam-1.0/).
func (t Table) SVG(w io.Writer) error {
	d := drawing{Table: t, Height: (len(t.Rows) + 1) * line}
	d.Title, d.Description = inXML(t.Title), inXML(t.Description)
	widths := make([]int, len(t.Heads))
	all := append([][]string{t.Heads}, t.Rows...)
	for _, row := range all {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text)*letter+2*padding)
		}
	}
	for n, row := range all {
		drawn := drawnLine{Y: n * line, TextY: n*line + 18, Head: n == 0}
		x := 0
		for i, text := range row {
			cell := drawnCell{X: x, TextX: x + padding, Width: widths[i], Text: inXML(text), Class: "plain"}
			if i == t.Verdict && n > 0 {
				cell.Class, _, _ = strings.Cut(text, " ")
			}
			drawn.Cells = append(drawn.Cells, cell)
			x += widths[i]
		}
		d.Width = x
		d.Lines = append(d.Lines, drawn)
	}
	return picture.Execute(w, d)
}

// inXML has a replacement for what no document of XML may hold, escaped or not (XML 1.0, 2.2): else nobody opens the picture.
func inXML(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= ' ' && r != 0xfffe && r != 0xffff || r == '\t' || r == '\n' || r == '\r' {
			return r
		}
		return utf8.RuneError
	}, text)
}

var picture = template.Must(template.New("svg").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" role="figure" aria-labelledby="title description">
<title id="title">{{.Title}}</title>
<desc id="description">{{.Description}}</desc>
<style>
text { font: 13px ui-monospace, monospace; fill: #1c1c1c; user-select: text }
rect { stroke: #c4c4c4 }
.head { fill: #e8e8e8 } .plain { fill: #ffffff } .allow { fill: #cdeed3 } .deny { fill: #f8cfcf } .depends { fill: #fbeab5 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f0f0 }
rect { stroke: #555555 }
.head { fill: #333333 } .plain { fill: #1c1c1c } .allow { fill: #1d4d2a } .deny { fill: #6b2222 } .depends { fill: #5c4a10 }
}
</style>
<g role="table">
{{- range .Lines}}{{$l := .}}
<g role="row">
{{- range .Cells}}
<g role="{{if $l.Head}}columnheader{{else}}cell{{end}}"><rect class="{{if $l.Head}}head{{else}}{{.Class}}{{end}}" x="{{.X}}" y="{{$l.Y}}" width="{{.Width}}" height="26"/><text x="{{.TextX}}" y="{{$l.TextY}}">{{.Text}}</text></g>
{{- end}}
</g>
{{- end}}
</g>
</svg>
`))
