package detect

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// Formats are those of Write.
var Formats = []string{"table", "json", "ocsf"}

// Write presents a report: as a table; as JSON; or its findings as OCSF events, one a line.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		enc := visible.Encoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "ocsf":
		enc := visible.Encoder(w)
		for i := range r.Findings {
			if err := enc.Encode(r.Findings[i].OCSF(r.Until)); err != nil {
				return err
			}
		}
		return nil
	}
	table, err := query.NewRowWriter("table", w)
	if err == nil {
		err = table.Columns([]string{"SEVERITY", "DETECTION", "WORKLOAD", "HOST", "PORT", "COUNT", "SCORE", "FIRST", "LAST", "EVIDENCE"})
	}
	for i := range r.Findings {
		if err == nil {
			err = table.Row(r.Findings[i].line())
		}
	}
	if err != nil {
		return err
	}
	return table.Close()
}

// line is a finding's in a table. The table sees to what terminals must not get.
func (f *Finding) line() []any {
	const minute = "2006-01-02 15:04Z"
	port := ""
	if f.Port != 0 {
		port = strconv.Itoa(int(f.Port))
	}
	return []any{f.Severity.String(), f.Detection, f.Who(), f.Host, port, strconv.FormatUint(f.Count, 10), strconv.FormatFloat(f.Score, 'f', 2, 64),
		f.First.UTC().Format(minute), f.Last.UTC().Format(minute), cut(f.evidence(), 240)}
}

// Who is the workload, with its namespace.
func (f *Finding) Who() string { return strings.Trim(f.Namespace+"/"+f.Workload, "/") }

// evidence writes the evidence as name=value.
func (f *Finding) evidence() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f.Evidence)) {
		value := f.Evidence[name]
		if _, text := value.(string); !text {
			if b, err := json.Marshal(value); err == nil {
				value = string(b)
			}
		}
		parts = append(parts, fmt.Sprintf("%s=%v", name, value))
	}
	return strings.Join(parts, " ")
}

// Sentence says the finding in one line, in which nothing is that a terminal or a chat would act on but what callers escape.
func (f *Finding) Sentence() string {
	text := f.Title + ": " + f.Who()
	if f.Host != "" {
		text += " → " + f.Host
	}
	if f.Port != 0 {
		text += ":" + strconv.Itoa(int(f.Port))
	}
	return fmt.Sprintf("%s, %d times", text, f.Count)
}

// WriteRules says what rules there are: for people, or as JSON.
func WriteRules(w io.Writer, format string, rules []*Rule) error {
	if format == "json" {
		enc := visible.Encoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(rules)
	}
	for i, r := range rules {
		head := append([]string{r.Severity.String()}, r.Attack...)
		lines := []string{fmt.Sprintf("%s (%s): %s", r.ID, strings.Join(head, ", "), r.Title)}
		for _, part := range [...]struct{ name, text string }{
			{"finds", r.Finds}, {"why", r.Why}, {"tuning", r.Tuning}, {"false positives", r.FalsePositives}, {"needs", strings.Join(r.Needs, ", ")}, {"file", r.File},
		} {
			if part.text != "" {
				lines = append(lines, "  "+part.name+": "+part.text)
			}
		}
		for _, p := range r.Params {
			lines = append(lines, fmt.Sprintf("  --set %s.%s=%s (%s): %s", r.ID, p.Name, p.Default, p.Type, p.Doc))
		}
		if i > 0 {
			lines = append([]string{""}, lines...)
		}
		if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
