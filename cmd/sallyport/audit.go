package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// auditCommand is "sallyport audit": the audit server and everything that reads the log.
func auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "The audit log: who tried to reach what, and what was decided",
		Long: `The audit log: who tried to reach what, and what was decided.

"server" keeps the log; the others read it, by the server's socket DATA/audit.sock or, while no server runs, from the
database file itself. With --kubeconfig or --context they ask the audit server of a cluster, through its API server; with --lake they
read what audit servers brought to object storage.`,
		Example: `  sallyport audit query --since 1h --verdict denied
  sallyport audit sql "SELECT host, count(*) AS n FROM records GROUP BY host ORDER BY n DESC LIMIT 10"
  sallyport audit tail --from shop/checkout --kubeconfig ~/.kube/config`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return program.Misuse(fmt.Errorf("audit has no command %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(auditServerCommand(), auditQueryCommand(), auditSQLCommand(), auditTailCommand(), auditExportCommand(), auditLakeCommand())
	return cmd
}

// auditDataFlag adds --data with its default.
func auditDataFlag(cmd *cobra.Command, data *string) {
	cmd.Flags().StringVar(data, "data", "", "data folder (default $SALLYPORT_DATA, else "+
		"${XDG_STATE_HOME:-$HOME/.local/state}/sallyport)")
}

// auditData resolves --data.
func auditData(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if dir := os.Getenv("SALLYPORT_DATA"); dir != "" {
		return dir, nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "sallyport"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", program.Misuse(fmt.Errorf("--data: no default without a home folder: %w", err))
	}
	return filepath.Join(home, ".local", "state", "sallyport"), nil
}

// auditFilterFlags are the flags that choose records.
type auditFilterFlags struct {
	since, until, verdict, host, from, policy, rule string
	wouldDeny                                       bool
	limit                                           int
}

// add declares the flags; since and limit are the defaults.
func (f *auditFilterFlags) add(cmd *cobra.Command, since string, limit int) {
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", since, "from this time on: a duration before now (30m, 1h, 7d) or an RFC 3339 time")
	flags.StringVar(&f.until, "until", "", "up to this time, like --since")
	flags.StringVar(&f.verdict, "verdict", "", "allowed or denied")
	flags.StringVar(&f.host, "host", "", "host, * for any text: '*.example.com'")
	flags.StringVar(&f.from, "from", "", "NAMESPACE/WORKLOAD: the name of a pod or service account, * for any text")
	flags.StringVar(&f.policy, "policy", "", "NAMESPACE/NAME: an EgressPolicy or AuthorizationPolicy that denied it, allowed it, or would deny it; * for any text")
	flags.StringVar(&f.rule, "rule", "", "the name of such a policy's rule, or default; * for any text")
	flags.BoolVar(&f.wouldDeny, "would-deny", false, "only what would be denied if the EgressPolicies that are observed were enforced; --policy and --rule are then of those")
	flags.IntVar(&f.limit, "limit", limit, "the newest N only; 0 for all")
}

// filterArguments says what arguments in the language of filters are.
const filterArguments = `FILTER is what the page takes, too: KEY:VALUE terms that all have to hold, with - before what must not, such as
'verdict:denied host:*.example.com -workload:shop/cart since:7d'. It and the flags have to hold both. Behind -- it may begin with -.
docs/reference-filters.md has the keys.`

// filter checks the flags, and the words of an expression beside them.
func (f *auditFilterFlags) filter(cmd *cobra.Command, words []string, now time.Time) (filter query.Filter, err error) {
	e, err := query.ParseExpression(strings.Join(words, " "))
	if err != nil {
		return filter, program.Misuse(err)
	}
	for _, bound := range []struct {
		flag, said string
		to         *string
	}{{"since", e.Since, &f.since}, {"until", e.Until, &f.until}} {
		switch {
		case bound.said == "":
		case cmd.Flags().Changed(bound.flag):
			return filter, program.Misuse(fmt.Errorf("--%s and %s:%s: give one of them", bound.flag, bound.flag, bound.said))
		default:
			*bound.to = bound.said
		}
	}
	filter.Terms = e.Terms
	var errs [5]error
	filter.Since, errs[0] = query.ParseTime(f.since, now)
	filter.Until, errs[1] = query.ParseTime(f.until, now)
	filter.Verdict, errs[2] = query.ParseVerdict(f.verdict)
	filter.From, errs[3] = query.ParseWorkload(f.from)
	filter.Rule, errs[4] = query.ParsePolicy(f.policy)
	for i, flag := range []string{"--since", "--until", "--verdict", "--from", "--policy"} {
		if errs[i] != nil {
			return filter, program.Misuse(fmt.Errorf("%s: %w", flag, errs[i]))
		}
	}
	if err := checkSpan(filter); err != nil {
		return filter, err
	}
	if f.limit < 0 {
		return filter, program.Misuse(fmt.Errorf("--limit %d: give 0 (all) or more", f.limit))
	}
	filter.Host, filter.Limit, filter.Rule.Name, filter.WouldDeny = f.host, f.limit, f.rule, f.wouldDeny
	return filter, nil
}

// checkSpan finds times between which there is nothing: the answer would look as if nothing had happened.
func checkSpan(f query.Filter) error {
	if f.Until.IsZero() || f.Since.Before(f.Until) {
		return nil
	}
	return program.Misuse(fmt.Errorf("--until %s: it is not after --since, %s, so there is nothing between them", f.Until.UTC().Format(time.RFC3339), f.Since.UTC().Format(time.RFC3339)))
}

// seenSince reads since when it is asked what was seen.
func seenSince(flag, text string, now time.Time) (time.Time, error) {
	at, err := query.ParsePast(text, now)
	if err != nil {
		return at, fmt.Errorf("%s: %w", flag, err)
	}
	return at, nil
}

// statementUsage makes a wrong statement a wrong call.
func statementUsage(err error) error {
	var wrong query.StatementError
	if errors.As(err, &wrong) {
		return program.Misuse(err)
	}
	return err
}
