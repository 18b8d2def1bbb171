package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/table"
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/policy/matrix"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

type policyFlags struct {
	source      explainFlags // where the configuration is
	output      string
	account, at string
	port        uint16
	limit       int
}

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Say what EgressPolicies say: list them, who can reach a host, what a workload can reach",
		Args:  noArguments,
		Example: `  sallyport policy list --config-dir ./mesh
  sallyport policy who-can api.example.com --kubeconfig ~/.kube/config`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(policyListCommand(), policyWhoCanCommand(), policyWhatCanCommand())
	return cmd
}

func policyListCommand() *cobra.Command {
	f := &policyFlags{}
	cmd := &cobra.Command{
		Use:   "list {--config-dir DIR | --data DIR | --kubeconfig FILE}",
		Short: "List EgressPolicies: whom each selects, its mode, rules and default, and what ends next",
		Example: `  sallyport policy list --config-dir ./mesh
  sallyport policy list --kubeconfig ~/.kube/config -o csv`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.list(cmd) },
	}
	f.add(cmd)
	return cmd
}

const cellsMean = `Every answer is that of "sallyport explain" for the same workload, host and port. "depends" means that policies let
through some requests and not others, by what is named. A pattern stands for names that no other registration has.
--limit bounds the answers; what is left out is said.`

func policyWhoCanCommand() *cobra.Command {
	f := &policyFlags{}
	cmd := &cobra.Command{
		Use:   "who-can {--config-dir DIR | --data DIR | --kubeconfig FILE} HOST",
		Short: "Say which workloads can reach a host",
		Long: `Say which workloads can reach a host, and by which rule: those of Pods and WorkloadEntries, and those that policies
and Sidecars speak of; one line for what nothing tells apart.

` + cellsMean,
		Example: `  sallyport policy who-can --config-dir ./mesh api.example.com
  sallyport policy who-can --kubeconfig ~/.kube/config --port 443 -o svg api.example.com > who.svg`,
		Args: oneArgument("HOST", "api.example.com"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.ask(cmd, args[0], "")
		},
	}
	f.add(cmd)
	f.addMatrix(cmd)
	cmd.Flags().Uint16Var(&f.port, "port", 0, "port of the host (all that are registered)")
	return cmd
}

func policyWhatCanCommand() *cobra.Command {
	f := &policyFlags{}
	cmd := &cobra.Command{
		Use:   "what-can {--config-dir DIR | --data DIR | --kubeconfig FILE} NS/WORKLOAD[?label=value&…]",
		Short: "Say which registered hosts a workload can reach",
		Long: `Say which of the hosts outside the mesh that are registered, and visible to a workload, it can reach, and by which rule.
WORKLOAD is the name of a pod, a WorkloadEntry or a service account, or any name with labels.

` + cellsMean,
		Example: `  sallyport policy what-can --config-dir ./mesh 'shop/checkout?app=checkout' --service-account checkout
  sallyport policy what-can --kubeconfig ~/.kube/config shop/checkout -o json`,
		Args: oneArgument("NS/WORKLOAD", "shop/checkout"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.ask(cmd, "", args[0])
		},
	}
	f.add(cmd)
	f.addMatrix(cmd)
	cmd.Flags().StringVar(&f.account, "service-account", "", "service account that the workload runs as")
	return cmd
}

func oneArgument(what, like string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return program.Misuse(fmt.Errorf("%s takes one %s, like %s; got %d arguments", cmd.Name(), what, like, len(args)))
		}
		if strings.TrimSpace(args[0]) == "" {
			return program.Misuse(fmt.Errorf("%s takes one %s, like %s; this one is empty", cmd.Name(), what, like))
		}
		return nil
	}
}

func (f *policyFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.source.configDir, "config-dir", "", "directory of YAML files")
	fs.StringVar(&f.source.data, "data", "", "data folder of the controller that runs and is asked")
	fs.StringVar(&f.source.meshConfig, "mesh-config", "", "file with Istio's MeshConfig")
	fs.StringVarP(&f.output, "output", "o", "table", "table, json, csv or svg")
	fs.StringVar(&f.at, "at", "", "when, like 2030-12-31T00:00:00Z (now)")
	f.source.cluster.add(fs)
}

func (f *policyFlags) addMatrix(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.limit, "limit", 2000, "how many answers at most")
}

// check finds calls that cannot be answered, and gives the time that is asked about.
func (f *policyFlags) check() (time.Time, error) {
	f.source.output = "text"
	if err := f.source.check(); err != nil {
		return time.Time{}, program.Misuse(err)
	}
	switch f.output {
	case "table", "json", "csv", "svg":
	default:
		return time.Time{}, program.Misuse(fmt.Errorf("-o %q: must be table, json, csv or svg", f.output))
	}
	at, err := policy.ParseTime(f.at)
	if err != nil {
		return at, program.Misuse(err)
	}
	if at.IsZero() {
		at = time.Now()
	}
	return at, nil
}

func (f *policyFlags) list(cmd *cobra.Command) error {
	at, err := f.check()
	if err != nil {
		return err
	}
	var list []matrix.PolicySummary
	if f.source.data != "" {
		err = askData(cmd.Context(), f.source.data, "policy/list", url.Values{"at": {f.at}}, &list)
	} else {
		var s *registry.Snapshot
		if s, _, _, err = f.read(cmd.Context(), policy.Workload{}, cmd.ErrOrStderr()); err == nil {
			list = matrix.List(s, at)
		}
	}
	if err != nil {
		return err
	}
	return printTable(cmd.OutOrStdout(), f.output, list, func() table.Table { return listTable(list) })
}

// ask asks about a host, or about a workload.
func (f *policyFlags) ask(cmd *cobra.Command, host, from string) error {
	if _, err := f.check(); err != nil {
		return err
	}
	if f.limit < 1 {
		return program.Misuse(errors.New("--limit: must be at least 1"))
	}
	q, err := matrix.ParseQuestion(host, from, f.account, f.at)
	if err != nil {
		return program.Misuse(err)
	}
	q.Port, q.Limit = uint32(f.port), f.limit
	var m matrix.Matrix
	if f.source.data != "" {
		err = askData(cmd.Context(), f.source.data, "policy/matrix", url.Values{
			"host": {host}, "from": {from}, "account": {f.account}, "at": {f.at},
			"port": {strconv.Itoa(int(f.port))}, "limit": {strconv.Itoa(f.limit)},
		}, &m)
	} else {
		var s *registry.Snapshot
		var objects []*config.Object
		if s, objects, q.From, err = f.read(cmd.Context(), q.From, cmd.ErrOrStderr()); err == nil {
			m = q.Answer(s, objects)
		}
	}
	if err != nil {
		return err
	}
	if m.LeftOut > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "sallyport: %d more are left out; --limit %d has them all\n", m.LeftOut, len(m.Cells)+m.LeftOut)
	}
	return printTable(cmd.OutOrStdout(), f.output, m, func() table.Table { return matrixTable(m, host, from) })
}

// read makes a snapshot of the files or the cluster, and gives the objects that workloads are known by. A workload with a name gets what
// a cluster knows of it.
func (f *policyFlags) read(ctx context.Context, w policy.Workload, errs io.Writer) (*registry.Snapshot, []*config.Object, policy.Workload, error) {
	var r *registry.Registry
	var changes []config.Change
	if f.source.configDir != "" {
		var err error
		if r, changes, err = readFiles(ctx, "--config-dir", f.source.configDir, f.source.meshConfig, errs); err != nil {
			return nil, nil, w, err
		}
	} else {
		access, err := f.source.cluster.open(ctx)
		if err != nil {
			return nil, nil, w, err
		}
		if w.Name != "" {
			if w, err = access.identify(ctx, "--from", w); err != nil {
				return nil, nil, w, err
			}
		}
		if r, changes, err = f.source.readObjects(ctx, access, errs); err != nil {
			return nil, nil, w, err
		}
	}
	var objects []*config.Object
	for _, c := range changes {
		if c.Object != nil && matrix.Knows(c.Key.Kind) {
			objects = append(objects, c.Object)
		}
	}
	return r.Snapshot(), objects, w, nil
}
