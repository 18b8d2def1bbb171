package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// printExplanation prints it, and says by its error whether the answer is no.
func printExplanation(w io.Writer, format string, e policy.Explanation) error {
	var err error
	if format == "json" {
		err = printJSON(w, e)
	} else {
		printText(w, e)
	}
	if err == nil && e.Verdict != "allow" {
		return answerNo{}
	}
	return err
}

func printText(w io.Writer, e policy.Explanation) {
	fmt.Fprintf(w, "%-11s%s\n", "verdict", e.Verdict)
	fmt.Fprintf(w, "%-11s%s\n", "path", e.Path)
	fmt.Fprintf(w, "%-11s%s\n", "cluster", e.Cluster)
	if e.Gateway != "" {
		fmt.Fprintf(w, "%-11s%s\n", "gateway", e.Gateway)
	}
	fmt.Fprintf(w, "%-11s%s\n", "decided by", decidedBy(e.DecidedBy))
	fmt.Fprintf(w, "%-11s%s\n", "reason", e.Reason)
	if e.WouldDeny != nil {
		fmt.Fprintf(w, "%-11s%s\n", "would deny", decidedBy(*e.WouldDeny))
	}
	printSteps(w, e.Policies)
	printSteps(w, e.Authorization)
	switch {
	case e.Suggestion == "":
	case strings.HasPrefix(e.Suggestion, "#"):
		fmt.Fprintf(w, "\nTo allow it:\n\n%s", e.Suggestion)
	default:
		fmt.Fprintf(w, "\nTo register it:\n\n%s", e.Suggestion)
	}
}

func decidedBy(d policy.DecidedBy) string {
	return fmt.Sprintf("%s (%s)", config.Key{Kind: config.Kind(d.Kind), Namespace: d.Namespace, Name: d.Name}, d.Rule)
}

// printSteps prints the rules of policies that were asked.
func printSteps(w io.Writer, steps []policy.PolicyStep) {
	if len(steps) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LEVEL\tPOLICY\tMODE\tRULE\tSAYS")
	for _, s := range steps {
		says := s.Why
		if s.Matched {
			says = s.Action
		}
		if s.Decides {
			says += ", and decides"
		}
		fmt.Fprintf(table, "%s\t%s/%s\t%s\t%s\t%s\n", s.Level, s.Namespace, s.Name, s.Mode, s.Rule, says)
	}
	_ = table.Flush()
}
