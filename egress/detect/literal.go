package detect

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/query"
)

var (
	anInteger = regexp.MustCompile(`^-?[0-9]{1,18}$`)
	aNumber   = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]{1,15})?$`)
)

// literal writes a value of the parameter as SQL.
func (p *Param) literal(value string) (string, error) {
	switch p.Type {
	case "integer":
		if !anInteger.MatchString(value) {
			return "", fmt.Errorf("%s is %q: write an integer", p.Name, value)
		}
		return "(" + value + ")", nil
	case "number":
		if !aNumber.MatchString(value) {
			return "", fmt.Errorf("%s is %q: write a number like 0.7", p.Name, value)
		}
		return "(" + value + ")::DOUBLE", nil
	case "duration":
		d, err := query.ParseDuration(value)
		if err != nil || d < 0 {
			return "", fmt.Errorf("%s is %q: write a duration like 90s, 12h or 14d", p.Name, value)
		}
		return "to_microseconds(" + strconv.FormatInt(d.Microseconds(), 10) + ")", nil
	default: // texts
		var list []string
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, query.Literal(item))
			}
		}
		return "[" + strings.Join(list, ", ") + "]::VARCHAR[]", nil
	}
}

// relation writes rows as a table expression with the columns named; it may be empty.
func relation(columns []string, types []string, rows [][]string) string {
	lines := make([]string, 0, len(rows)+1)
	for _, row := range rows {
		lines = append(lines, "("+strings.Join(row, ", ")+")")
	}
	nulls, casts := make([]string, len(columns)), make([]string, len(columns))
	for i := range columns {
		nulls[i] = "NULL"
		casts[i] = columns[i] + "::" + types[i] + " AS " + columns[i]
	}
	// The last row gives an empty table its columns; no row of the others has a NULL in the first.
	lines = append(lines, "("+strings.Join(nulls, ", ")+")")
	return "(SELECT " + strings.Join(casts, ", ") + " FROM (VALUES " + strings.Join(lines, ", ") + ") v(" + strings.Join(columns, ", ") +
		") WHERE " + columns[0] + " IS NOT NULL)"
}
