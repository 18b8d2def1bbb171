package report

import (
	_ "embed"
	"html/template"
)

//go:embed page.html
var source string

// page is one document without scripts, and loads nothing.
var page = template.Must(template.New("page").Parse(source))
