package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/egress/simulate/report"
)

type simulateFlags struct {
	source         explainFlags // where the configuration is
	log            auditOrigin
	since, until   string
	from, host     string
	files, removed []string
	output         string
	maxDenied      int
}

func simulateCommand() *cobra.Command {
	f := &simulateFlags{}
	cmd := &cobra.Command{
		Use:   "simulate {--config-dir DIR | --up DIR | --kubeconfig FILE} {-f FILE… | --remove KIND/NS/NAME}",
		Short: "Say what a change of the configuration would newly deny and allow, by what the audit log has seen",
		Long: `Ask what the audit log has seen once more, under a changed configuration: what would newly be denied, and allowed, by
workload and host, with counts, the first and the last time, and the rule on both sides.

The configuration is that of --config-dir, of --up, or of a cluster, as in "sallyport explain"; -f adds objects to it or
takes the place of those of the same name, --remove takes one away. The log is that of --data, or of the cluster, as in
"sallyport audit query". Objects that admission would refuse are refused here, in its words.

An input is distinct by who asked (namespace, account, workload, labels) for what (host, port, protocol, method, path);
replicas are one. Each is decided once on either side, by what proxies are held to. Where what the log says became of it is
not what the configuration as it is makes of it, or where that depends on what the log does not hold (headers, queries), it
is not reproducible: it is counted, with why, and not among the answers. What a denial would have prevented is not known.

With --max-newly-denied N the exit code is 1 if more than N distinct inputs would newly be denied. It is 1, too, if an object
would be refused; 0 otherwise, 2 when the call was wrong and 3 when it failed.`,
		Example: `  sallyport simulate --config-dir ./mesh -f candidate.yaml
  sallyport simulate --up ./egress --remove ServiceEntry/default/external --since 7d
  sallyport simulate --kubeconfig ~/.kube/config -f policies/ --max-newly-denied 0 -o markdown > report.md
  kubectl get egresspolicy -n shop list -o yaml | sed s/Observe/Enforce/ | sallyport simulate --kubeconfig ~/.kube/config -f - -o html > report.html`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.source.configDir, "config-dir", "", "directory of YAML files")
	fs.StringVar(&f.source.up, "up", "", "directory of YAML files that sallyport up runs with")
	fs.StringVar(&f.source.meshConfig, "mesh-config", "", "file with Istio's MeshConfig")
	fs.StringArrayVarP(&f.files, "file", "f", nil, "file or directory with objects that are applied, - for standard input; repeat it")
	fs.StringArrayVar(&f.removed, "remove", nil, "KIND/NAMESPACE/NAME of an object that is taken away; repeat it")
	fs.StringVar(&f.since, "since", "30d", "what was asked for from this time on: a duration before now (1h, 7d) or an RFC 3339 time")
	fs.StringVar(&f.until, "until", "", "up to this time, like --since")
	fs.StringVar(&f.from, "from", "", "NAMESPACE/WORKLOAD: by the name of a workload or service account, * for any text")
	fs.StringVar(&f.host, "host", "", "host, * for any text: '*.example.com'")
	fs.StringVarP(&f.output, "output", "o", "table", strings.Join(report.Formats, ", "))
	fs.IntVar(&f.maxDenied, "max-newly-denied", -1, "exit with 1 if more distinct inputs than this would newly be denied (default: any number may)")
	f.log.add(cmd)
	return cmd
}

// filter reads which inputs are asked for.
func (f *simulateFlags) filter(now time.Time) (filter query.Filter, err error) {
	if filter.Since, err = seenSince("--since", f.since, now); err != nil {
		return filter, program.Misuse(err)
	}
	if filter.Until, err = query.ParseTime(f.until, now); err != nil {
		return filter, program.Misuse(fmt.Errorf("--until: %w", err))
	}
	if filter.From, err = query.ParseWorkload(f.from); err != nil {
		return filter, program.Misuse(fmt.Errorf("--from: %w", err))
	}
	filter.Host = f.host
	return filter, checkSpan(filter)
}

// check finds calls that cannot be answered.
func (f *simulateFlags) check() error {
	f.source.cluster, f.source.output = f.log.cluster, "text"
	switch {
	case len(f.files)+len(f.removed) == 0:
		return errors.New("what would change? give objects with -f FILE, or take one away with --remove KIND/NAMESPACE/NAME")
	case !slices.Contains(report.Formats, f.output):
		return fmt.Errorf("-o %q: must be one of %s", f.output, strings.Join(report.Formats, ", "))
	}
	return f.source.check()
}

func (f *simulateFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(); err != nil {
		return program.Misuse(err)
	}
	now := time.Now()
	filter, err := f.filter(now)
	if err != nil {
		return err
	}
	sides, err := f.sides(cmd, now)
	if err != nil {
		return err
	}
	source, err := f.log.open(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	run := simulate.New(sides)
	err = source.Inputs(cmd.Context(), filter, run.Add)
	found := run.Finish()
	if err != nil {
		return err
	}
	found.Since, found.Until = filter.Since, filter.Until
	if found.Until.IsZero() {
		found.Until = now
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if err := errors.Join(report.Write(out, f.output, found), out.Flush()); err != nil {
		return err
	}
	if found.Distinct == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "sallyport: the log has nothing of what was asked for, so that nothing would be denied says nothing about the change")
	}
	if n := found.Inputs.NewlyDenied; f.maxDenied >= 0 && n > f.maxDenied {
		fmt.Fprintf(cmd.ErrOrStderr(), "sallyport: %d distinct inputs would newly be denied, more than --max-newly-denied %d\n", n, f.maxDenied)
		return program.AnswerNo{}
	}
	return nil
}
