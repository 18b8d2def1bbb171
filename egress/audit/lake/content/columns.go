package content

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

// columns.txt is what a file has, a column a line, as DuckDB says it; a test of package lake writes it, of what is written.
//
//go:embed columns.txt
var columns string

// Column is one of a file's, or a field of one.
type Column struct {
	Name   string
	Type   string   // DuckDB's of one value; "" where there are fields
	Fields []Column // of a struct
	List   bool     // there are any number of such values
}

// Columns are those of the files that are Signed, of the newest version of the record's.
var Columns = sync.OnceValue(func() []Column {
	p := parser{"STRUCT(" + strings.ReplaceAll(strings.TrimSuffix(columns, "\n"), "\n", ", ") + ")"}
	all := p.column("")
	if p.rest != "" || len(all.Fields) == 0 {
		panic(fmt.Sprintf("columns.txt: what does %q mean?", p.rest))
	}
	return all.Fields
})

// parser reads types as DuckDB writes them.
type parser struct{ rest string }

func (p *parser) skip(text string) bool {
	rest, found := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return found
}

func (p *parser) column(name string) Column {
	c := Column{Name: name}
	if p.skip("STRUCT(") {
		for more := true; more; more = p.skip(", ") {
			name, rest, _ := strings.Cut(p.rest, " ")
			p.rest = rest
			c.Fields = append(c.Fields, p.column(strings.Trim(name, `"`)))
		}
		p.skip(")")
	} else {
		end := strings.IndexAny(p.rest+",", ",)[")
		c.Type, p.rest = p.rest[:end], p.rest[end:]
	}
	c.List = p.skip("[]")
	return c
}
