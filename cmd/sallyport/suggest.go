package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// observed is where a log and the configuration in force are, that go together.
type observed struct {
	source explainFlags // its directories and its mesh settings
	log    auditOrigin
	since  string
}

func (f *observed) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.source.configDir, "config-dir", "", "directory of YAML files that are in force")
	fs.StringVar(&f.source.up, "up", "", "directory of YAML files that sallyport up runs on")
	fs.StringVar(&f.source.meshConfig, "mesh-config", "", "file with Istio's MeshConfig")
	fs.StringVar(&f.since, "since", "30d", "from this time on: a duration before now (12h, 30d) or an RFC 3339 time")
	f.log.add(cmd)
}

// check finds calls that cannot be answered.
func (f *observed) check() error {
	s := &f.source
	switch {
	case s.configDir != "" && s.up != "":
		return errors.New("--config-dir and --up: give one of them")
	case s.up != "" && f.log.cluster.given():
		return errors.New("--up and --kubeconfig: a sallyport up is in no cluster; leave one out")
	case s.configDir == "" && s.up == "" && !f.log.cluster.meant():
		return errors.New("where is the configuration? give --config-dir DIR, --up DIR, or --kubeconfig FILE")
	}
	for flag, dir := range map[string]string{"--config-dir": s.configDir, "--up": s.up} {
		if dir == "" {
			continue
		}
		if err := program.Directory(flag, dir); err != nil {
			return err
		}
	}
	return nil
}

// inForce reads the configuration.
func (f *observed) inForce(ctx context.Context, errs io.Writer) (c suggest.Config, err error) {
	c.Decide = policy.Decide
	switch {
	case f.source.up != "":
		c.Decide = func(s *registry.Snapshot, _ policy.Workload, d policy.Destination) policy.Verdict {
			return policy.DecideForward(s, upNamespace, d)
		}
		c.Registry, c.Objects, err = readFiles(ctx, "--up", f.source.up, f.source.meshConfig, errs)
	case f.source.configDir != "":
		c.Registry, c.Objects, err = readFiles(ctx, "--config-dir", f.source.configDir, f.source.meshConfig, errs)
	default:
		var access *clusterAccess
		if access, err = f.log.cluster.open(ctx); err != nil {
			return c, err
		}
		c.Registry, c.Objects, err = f.source.readObjects(ctx, access, errs)
	}
	if err == nil {
		c.Snapshot = c.Registry.Snapshot()
	}
	return c, err
}

// seen adds up the log since several times.
func (f *observed) seen(ctx context.Context, namespaces string, since ...time.Time) (logs []*seen.Log, err error) {
	source, err := f.log.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	for _, at := range since {
		log, err := seen.Read(ctx, source, seen.Question{Since: at, Namespace: namespaces})
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
	}
	return logs, nil
}

// sighted adds up what says what waits, since a time.
func (f *observed) sighted(ctx context.Context, since time.Time) (log *seen.Log, err error) {
	source, err := f.log.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	return seen.Sighted(ctx, source, seen.Question{Since: since})
}

type suggestFlags struct {
	observed
	from, by, mode, unused, expires, output string
	opts                                    suggest.Options
}

func suggestCommand() *cobra.Command {
	f := &suggestFlags{}
	cmd := &cobra.Command{
		Use:   "suggest {--config-dir DIR | --up DIR | --kubeconfig FILE}",
		Short: "Write the ServiceEntries and EgressPolicies that cover what was seen",
		Long: `Write, from the audit log, the objects that cover what workloads were seen to do and that the
configuration in force does not: a ServiceEntry for each host that was let through although nobody
registered it, and for each service account that no policy closes yet an EgressPolicy that allows what
it did, and no more. With --denied also what would let through what was denied.

The evidence is in comments. With all of it applied, everything that was seen allowed, and is today,
stays allowed; a policy of which that cannot be said only observes. Hosts inside (private addresses,
metadata services, names of the cluster) are never registered, and what is left out is said.

--unused writes which entries and rules nobody used since then, as far as the log reaches.`,
		Example: `  sallyport suggest --up ./egress --denied
  sallyport suggest --config-dir ./mesh --data ./data --from shop/checkout -o diff
  sallyport suggest --kubeconfig ~/.kube/config --since 90d > suggested.yaml
  sallyport suggest --kubeconfig ~/.kube/config --unused 90d -o diff`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.add(cmd)
	fs.StringVar(&f.from, "from", "", "NAMESPACE, or NAMESPACE/WORKLOAD: a service account, or an application by its label app")
	fs.BoolVar(&f.opts.Denied, "denied", false, "suggest what would let through what was denied, too")
	fs.BoolVar(&f.opts.Policies, "policies", true, "suggest EgressPolicies")
	fs.StringVar(&f.by, "by", "account", "whom policies are for: account (service accounts) or app (the label app, or app.kubernetes.io/name)")
	fs.BoolVar(&f.opts.Paths, "paths", true, "let rules name methods and paths of requests that proxies read")
	fs.StringVar(&f.mode, "mode", "Enforce", "Enforce, or Observe: new policies deny nothing, and the log says what they would")
	fs.IntVar(&f.opts.Siblings, "siblings", 5, "from how many names right below a domain on a wildcard takes their place; 0 for never")
	fs.IntVar(&f.opts.Limit, "limit", 1000, "how many hosts are registered at most")
	fs.StringVar(&f.opts.Owner, "owner", "", "owner of the rules that are written")
	fs.StringVar(&f.opts.Ticket, "ticket", "", "ticket of the rules that are written")
	fs.StringVar(&f.expires, "expires", "", "when these rules end: in so long (90d), or a time of RFC 3339")
	fs.StringVar(&f.unused, "unused", "", "remove what nobody used since: a duration before now (90d) or a time")
	fs.StringVarP(&f.output, "output", "o", "yaml", "yaml, diff (against what is in force) or json")
	return cmd
}

// options checks the flags.
func (f *suggestFlags) options(now time.Time) (times []time.Time, err error) {
	o := &f.opts
	o.Now = now
	if err := f.check(); err != nil {
		return nil, err
	}
	since, err := seenSince("--since", f.since, now)
	if err != nil {
		return nil, err
	}
	times = append(times, since)
	if f.from != "" {
		w, err := query.ParseWorkload(f.from)
		if err != nil || strings.ContainsAny(f.from, "*?") || w.Namespace == "" {
			return nil, fmt.Errorf("--from %q: write NAMESPACE, or NAMESPACE/WORKLOAD, the name of a service account or an application", f.from)
		}
		o.Namespace, o.Workload = w.Namespace, w.Name
	}
	switch {
	case f.by != "account" && f.by != "app":
		return nil, fmt.Errorf("--by %q: must be account or app", f.by)
	case f.mode != "Enforce" && f.mode != "Observe":
		return nil, fmt.Errorf("--mode %q: must be Enforce or Observe", f.mode)
	case f.output != "yaml" && f.output != "diff" && f.output != "json":
		return nil, fmt.Errorf("-o %q: must be yaml, diff or json", f.output)
	case o.Siblings < 0 || o.Siblings == 1:
		return nil, fmt.Errorf("--siblings %d: must be 2 or more, or 0 for no wildcards", o.Siblings)
	case o.Limit < 1:
		return nil, fmt.Errorf("--limit %d: must be at least 1", o.Limit)
	case f.unused != "" && f.from != "":
		return nil, errors.New("--unused and --from: what is unused is so for everybody; leave --from out")
	}
	o.ByApp, o.Observe = f.by == "app", f.mode == "Observe"
	if o.Expires, err = later(f.expires, now); err != nil {
		return nil, fmt.Errorf("--expires %w", err)
	}
	if f.unused != "" {
		at, err := seenSince("--unused", f.unused, now)
		if err != nil {
			return nil, err
		}
		times = append(times, at)
	}
	return times, nil
}

// later reads a time to come: in so long, or of RFC 3339; the zero time for "".
func later(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if d, e := query.ParseDuration(text); e == nil {
		at, err = now.Add(d).Truncate(time.Second), nil
	}
	if err != nil || !at.After(now) {
		return at, fmt.Errorf("%q: must be in the future: so long from now (90d), or a time like 2030-12-31T00:00:00Z", text)
	}
	return at.UTC(), nil
}

func (f *suggestFlags) run(cmd *cobra.Command) error {
	times, err := f.options(time.Now())
	if err != nil {
		return program.Misuse(err)
	}
	inForce, err := f.inForce(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	logs, err := f.seen(cmd.Context(), f.opts.Namespace, times...)
	if err != nil {
		return err
	}
	if len(logs) > 1 {
		f.opts.Unused = logs[1]
	}
	if err := f.known(inForce, logs[0]); err != nil {
		return err
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	return errors.Join(printSuggestions(out, f.output, suggest.Suggest(inForce, logs[0], f.opts)), out.Flush())
}

// known says when nobody is meant by --from: mostly it is misspelt.
func (f *suggestFlags) known(c suggest.Config, log *seen.Log) error {
	if f.from == "" {
		return nil
	}
	for _, flow := range log.Flows {
		if _, app := flow.App(); f.opts.Workload == "" || flow.Account == f.opts.Workload || app == f.opts.Workload {
			return nil
		}
	}
	for _, x := range c.Objects {
		if x.Key.Kind == config.KindNamespace && x.Key.Name == f.opts.Namespace && f.opts.Workload == "" {
			return nil
		}
	}
	return fmt.Errorf("--from %q: the log has nothing of it since %s; a WORKLOAD is a service account, or an application by its label app", f.from, f.since)
}

func printSuggestions(w io.Writer, format string, r *suggest.Result) error {
	switch format {
	case "diff":
		return r.WriteDiff(w)
	case "json":
		d, err := r.Document()
		if err != nil {
			return err
		}
		return printJSON(w, d)
	default:
		return r.WriteYAML(w)
	}
}
