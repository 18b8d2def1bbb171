package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/cmd/sallyport/table"
	"github.com/sallyport/sallyport/serviceentry/policy/matrix"
)

// printTable writes an answer: as JSON, or the table that is made of it.
func printTable(w io.Writer, format string, answer any, tabled func() table.Table) error {
	switch format {
	case "json":
		return printJSON(w, answer)
	case "csv":
		return tabled().CSV(w)
	case "svg":
		return tabled().SVG(w)
	default:
		return tabled().Text(w)
	}
}

func listTable(list []matrix.PolicySummary) table.Table {
	t := table.Table{
		Title: "EgressPolicies", Description: fmt.Sprintf("%d EgressPolicies, in the order in which each namespace's are asked", len(list)), Verdict: -1,
		Heads: []string{"NAMESPACE", "NAME", "FOR", "MODE", "RULES", "ENDED", "DEFAULT", "ENDS NEXT"},
	}
	for _, l := range list {
		byDefault, ends := l.Default, ""
		if l.Implied {
			byDefault += " (implied)"
		}
		if l.EndsNext != nil {
			ends = fmt.Sprintf("%s (%s)", l.EndsNext.UTC().Format(time.RFC3339), l.EndsRule)
		}
		t.Rows = append(t.Rows, []string{l.Namespace, l.Name, l.Selects, l.Mode, strconv.Itoa(l.Rules), strconv.Itoa(l.Ended), byDefault, ends})
	}
	return t
}

// matrixTable is of the workloads that can reach a host, or of the hosts that a workload can reach.
func matrixTable(m matrix.Matrix, host, from string) table.Table {
	counts := map[string]int{}
	for _, c := range m.Cells {
		counts[c.Verdict]++
	}
	t := table.Table{
		Title:       "What " + from + " can reach",
		Description: fmt.Sprintf("allow: %d, deny: %d, depends: %d", counts[matrix.Allow], counts[matrix.Deny], counts[matrix.Depends]),
		Heads:       []string{"HOST", "PORT", "AS", "VERDICT", "BY"}, Verdict: 3,
	}
	if host != "" {
		t.Title, t.Heads, t.Verdict = "Who can reach "+host, []string{"WHO", "WORKLOADS", "PORT", "AS", "VERDICT", "BY"}, 4
	}
	for _, c := range m.Cells {
		verdict := c.Words()
		if c.WouldDeny {
			verdict += " (would deny)"
		}
		row := []string{strconv.Itoa(int(c.Port)), c.Protocol, verdict, c.Why()}
		if host != "" {
			row = append([]string{c.Subject.String(), workloads(c.Subject)}, row...)
		} else {
			row = append([]string{c.Host}, row...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// workloads are a subject's in a few words.
func workloads(s matrix.Subject) string {
	switch n := len(s.Workloads); n {
	case 0:
		return "none yet"
	case 1:
		return s.Workloads[0]
	default:
		return fmt.Sprintf("%s and %d more", s.Workloads[0], n-1)
	}
}
