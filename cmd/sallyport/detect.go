package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/detect"
)

// detectFlags are those of "detect".
type detectFlags struct {
	log                       auditOrigin
	choice                    ruleChoice
	since, until, usual       string
	output, failOn            string
	list                      bool
	limit                     int
	within                    time.Duration
	configDir, up, meshConfig string
}

func detectCommand() *cobra.Command {
	f := &detectFlags{}
	cmd := &cobra.Command{
		Use:   "detect",
		Short: "Look in the audit log for what should not be there",
		Long: `Look in the audit log for what should not be there: beacons, tunnels by DNS, generated names, bursts of denials, first contacts,
unusual volume, domains of a feed, rules that end or are not used, records that are missing, proxies that never reported.

Each detection is a rule: one SELECT with a header that says what it finds and why, how to tune it, and what it takes for bad
that is not (--list). The log is read where "audit query" reads it. What happened between --since and --until is looked at; what
was usual is taken from the time before it (--usual). Rules about policies need the configuration; without --config-dir, --up
or --kubeconfig they are skipped, and named; so is the rule about proxies that never reported where no audit server runs, which controllers
tell who is connected.

The exit code is 0, or 1 with --fail-on when something as bad as that was found, also where a rule broke beside it; 3 when a
rule broke and nothing so bad was found. The others have run then, and stderr says which rule broke, and why.`,
		Example: `  sallyport detect
  sallyport detect --since 7d --fail-on high -o json
  sallyport detect --list --only beacon
  sallyport detect --only beacon,dns-tunnel --set beacon.connections=6 --set dns-tunnel.allow=lists.example.com
  sallyport detect --rules ./rules --feed ./domains.txt --config-dir ./mesh
  sallyport detect --kubeconfig ~/.kube/config -o ocsf`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.since, "since", "24h", "from this time on: a duration before now (30m, 1h, 7d) or an RFC 3339 time")
	fs.StringVar(&f.until, "until", "", "up to this time, like --since (now)")
	fs.StringVar(&f.usual, "usual", "14d", "how long before --since what was usual is taken from")
	f.choice.add(fs, "")
	fs.BoolVar(&f.list, "list", false, "say what rules there are, and run none")
	fs.StringVar(&f.failOn, "fail-on", "", "exit with 1 when something of this severity, or worse, is found: "+strings.Join(detect.Severities, ", "))
	fs.IntVar(&f.limit, "limit", 200, "findings of one rule in one namespace at most")
	fs.DurationVar(&f.within, "within", time.Minute, "how long one rule may take")
	fs.StringVar(&f.configDir, "config-dir", "", "directory of YAML files, for the rules about policies")
	fs.StringVar(&f.up, "up", "", "the same, of a sallyport up")
	fs.StringVar(&f.meshConfig, "mesh-config", "", "file with Istio's MeshConfig")
	fs.StringVarP(&f.output, "output", "o", "table", "table, json, or ocsf (Detection Finding 2004, an event a line)")
	f.log.add(cmd)
	return cmd
}

func (f *detectFlags) run(cmd *cobra.Command) error {
	failOn, err := f.check()
	if err != nil {
		return program.Misuse(err)
	}
	chosen, err := f.choice.load()
	if err != nil {
		return program.Misuse(err)
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.list {
		return errors.Join(detect.WriteRules(out, f.output, chosen.rules), out.Flush(), chosen.broken)
	}
	window, err := f.window(time.Now())
	if err != nil {
		return program.Misuse(err)
	}
	report, err := f.look(cmd, chosen, window)
	if err != nil {
		return err
	}
	if err := errors.Join(report.Write(out, f.output), out.Flush()); err != nil {
		return err
	}
	f.say(cmd.ErrOrStderr(), report)
	if failOn > 0 && slices.ContainsFunc(report.Findings, func(x detect.Finding) bool { return x.Severity >= failOn }) {
		return errors.Join(program.AnswerNo{}, chosen.broken)
	}
	if len(report.Failed) > 0 {
		return errors.Join(fmt.Errorf("%d rules broke, see above", len(report.Failed)), chosen.broken)
	}
	return chosen.broken
}

// look opens the log and runs the rules.
func (f *detectFlags) look(cmd *cobra.Command, chosen *chosenRules, window detect.Window) (_ *detect.Report, err error) {
	inputs := detect.Inputs{Feed: chosen.feed}
	if asksFor(chosen.rules, detect.InputRules) {
		if inputs.Rules, inputs.NoRules, err = f.policies(cmd.Context(), cmd.ErrOrStderr()); err != nil {
			return nil, err
		}
	}
	source, err := f.log.open(cmd.Context())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if asksFor(chosen.rules, detect.InputProxies) {
		if inputs.Proxies, inputs.NoProxies, err = query.Connected(cmd.Context(), untunnelled(source)); err != nil {
			return nil, err
		}
	}
	return detect.Run(cmd.Context(), source, chosen.rules, window, detect.Options{Inputs: inputs, Settings: chosen.settings, Limit: f.limit, Within: f.within})
}

// say tells beside the findings what they are not the whole of.
func (f *detectFlags) say(errs io.Writer, report *detect.Report) {
	for _, note := range report.Failed {
		fmt.Fprintf(errs, "sallyport: %s: rule %s: %s\n", note.File, note.Rule, note.Why)
	}
	for _, note := range report.Skipped {
		fmt.Fprintf(errs, "sallyport: rule %s is skipped: %s\n", note.Rule, note.Why)
	}
	for _, id := range report.More {
		fmt.Fprintf(errs, "sallyport: rule %s found more than %d in a namespace; --limit gives more\n", id, f.limit)
	}
}

// check finds calls that cannot be answered.
func (f *detectFlags) check() (failOn detect.Severity, err error) {
	given := 0
	for _, is := range []bool{f.configDir != "", f.up != "", f.log.cluster.given()} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return 0, errors.New("--config-dir, --up and --kubeconfig: give one of them")
	case !slices.Contains(detect.Formats, f.output) || f.list && f.output == "ocsf":
		return 0, fmt.Errorf("-o %q: must be one of %s; with --list, table or json", f.output, strings.Join(detect.Formats, ", "))
	case f.limit < 1 || f.limit > detect.MaxFindings:
		return 0, fmt.Errorf("--limit %d: must be between 1 and %d", f.limit, detect.MaxFindings)
	case f.within <= 0:
		return 0, fmt.Errorf("--within %v: must be longer than nothing", f.within)
	}
	if f.failOn != "" {
		if failOn, err = detect.ParseSeverity(f.failOn); err != nil {
			return 0, fmt.Errorf("--fail-on: %w", err)
		}
	}
	return failOn, nil
}

func (f *detectFlags) window(now time.Time) (w detect.Window, err error) {
	if w.Since, err = query.ParseTime(f.since, now); err != nil {
		return w, fmt.Errorf("--since: %w", err)
	}
	if w.Until, err = query.ParseTime(f.until, now); err != nil {
		return w, fmt.Errorf("--until: %w", err)
	}
	if w.Until.IsZero() {
		w.Until = now
	}
	usual, err := query.ParseDuration(f.usual)
	if err != nil || usual < 0 {
		return w, fmt.Errorf("--usual %q: write a duration like 12h or 14d", f.usual)
	}
	w.Past = w.Since.Add(-usual)
	if w.Since.IsZero() || !w.Since.Before(w.Until) {
		return w, fmt.Errorf("--since %q is not before --until %q", f.since, f.until)
	}
	return w, nil
}

// asksFor says whether one of the rules needs something.
func asksFor(rules []*detect.Rule, input string) bool {
	return slices.ContainsFunc(rules, func(r *detect.Rule) bool { return slices.Contains(r.Needs, input) })
}

// policies reads the rules that are in force where the flags say; nil and why not, where they say nothing, or a cluster lets nobody read them.
func (f *detectFlags) policies(ctx context.Context, errs io.Writer) (rules []detect.PolicyRule, why string, err error) {
	config := explainFlags{meshConfig: f.meshConfig}
	switch {
	case f.configDir != "":
		rules, err = policyRules(ctx, "--config-dir", f.configDir, f.meshConfig, errs)
		return rules, "", err
	case f.up != "":
		rules, err = policyRules(ctx, "--up", f.up, f.meshConfig, errs)
		return rules, "", err
	case f.log.cluster.given():
		access, err := f.log.cluster.open(ctx)
		if err != nil {
			return nil, "", err
		}
		r, _, err := config.readObjects(ctx, access, errs)
		if err != nil {
			return nil, err.Error(), nil //nolint:nilerr // the reason why rules are skipped
		}
		return rulesOf(r.Snapshot()), "", nil
	}
	return nil, "", nil
}
