package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// printExplanation prints it, and says by its error whether the answer is no.
func printExplanation(w io.Writer, format string, e policy.Explanation) error {
	var err error
	if format == "json" {
		err = printJSON(w, e)
	} else {
		b := bufio.NewWriter(w)
		printText(b, e)
		err = b.Flush()
	}
	if err == nil && e.Verdict != "allow" {
		return program.AnswerNo{}
	}
	return err
}

func printText(w io.Writer, e policy.Explanation) {
	fmt.Fprintf(w, "%-11s%s\n", "verdict", e.Verdict)
	fmt.Fprintf(w, "%-11s%s\n", "path", e.Path)
	printServer(w, &e)
	if e.Cluster != "" {
		fmt.Fprintf(w, "%-11s%s\n", "cluster", e.Cluster)
	}
	if e.Mode != "" {
		fmt.Fprintf(w, "%-11s%s\n", "mutual TLS", e.Mode)
	}
	if e.Waypoint != "" {
		fmt.Fprintf(w, "%-11s%s\n", "waypoint", e.Waypoint)
	}
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
	printPods(w, e.Pods)
	switch {
	case e.Suggestion == "":
	case strings.HasPrefix(e.Suggestion, "#"):
		fmt.Fprintf(w, "\nTo allow it:\n\n%s", e.Suggestion)
	default:
		fmt.Fprintf(w, "\nTo register it:\n\n%s", e.Suggestion)
	}
}

// printServer prints what takes it at an ingress gateway, and what the gateway answers itself.
func printServer(w io.Writer, e *policy.Explanation) {
	if e.Server != nil {
		fmt.Fprintf(w, "%-11s%s\n", "server", decidedBy(*e.Server))
	}
	if e.TLS != "" {
		fmt.Fprintf(w, "%-11s%s\n", "TLS", e.TLS)
	}
	if e.Status != 0 {
		fmt.Fprintf(w, "%-11s%d\n", "answer", e.Status)
	}
	if e.Location != "" {
		fmt.Fprintf(w, "%-11s%s\n", "location", e.Location)
	}
}

func decidedBy(d policy.DecidedBy) string {
	by := config.Key{Kind: config.Kind(d.Kind), Namespace: d.Namespace, Name: d.Name}.String()
	if d.Rule == "" {
		return by
	}
	return by + " (" + d.Rule + ")"
}

// printPods prints what the pods say that it comes to.
func printPods(w io.Writer, pods []policy.PodsAnswer) {
	for _, p := range pods {
		first := strings.Join(p.Addresses[:min(len(p.Addresses), 3)], ", ")
		if more := len(p.Addresses) - 3; more > 0 {
			first += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(w, "\n%-11s%s at port %d: %s\n", "pods", first, p.Port, p.Verdict)
		if p.Mode != "" {
			fmt.Fprintf(w, "%-11s%s, and comes %s\n", "mutual TLS", p.Mode, map[bool]string{true: "by it", false: "in plain text"}[p.MutualTLS])
		}
		if p.DecidedBy.Kind != "" {
			fmt.Fprintf(w, "%-11s%s\n", "decided by", decidedBy(p.DecidedBy))
		}
		fmt.Fprintf(w, "%-11s%s\n", "reason", p.Reason)
		printSteps(w, p.Authorization)
	}
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
