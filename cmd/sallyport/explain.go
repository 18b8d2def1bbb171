package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/admission"
	"github.com/sallyport/sallyport/serviceentry/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/source/dir"
)

type explainFlags struct {
	configDir, meshConfig, from, output string
	cluster                             clusterFlags
}

func explainCommand() *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain {--config-dir DIR | --kubeconfig FILE} --from NS/WORKLOAD[?label=value&…] URL",
		Short: "Say what happens to a workload's request, and which object decides",
		Long: `Say, for one workload and one destination, whether it may leave, by which path, which
object decides, and, where nothing does, what to write.

In a cluster WORKLOAD is the name of a pod, a deployment, a stateful set, a daemon set or a service
account, and has the labels that it has there; the mesh's settings are those of the control plane.

URL is http://HOST[:PORT]/PATH, https://HOST[:PORT], tls://SNI:PORT or tcp://HOST:PORT.
The exit code is 0 when it is allowed and 1 when it is denied.`,
		Example: `  sallyport explain --config-dir ./mesh --from default/app https://external.com
  sallyport explain --config-dir ./mesh --from 'default/app?version=v2' -o json tcp://db.external.com:5432
  sallyport explain --kubeconfig ~/.kube/config --from shop/checkout https://external.com`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("explain takes one URL, like https://external.com; got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&f.configDir, "config-dir", "", "directory of YAML files")
	cmd.Flags().StringVar(&f.meshConfig, "mesh-config", "", "file with Istio's MeshConfig")
	cmd.Flags().StringVar(&f.from, "from", "", "NAMESPACE/WORKLOAD, and labels if they matter: ?label=value&…")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	f.cluster.add(cmd.Flags())
	return cmd
}

func (f *explainFlags) run(cmd *cobra.Command, target string) error {
	if err := f.check(); err != nil {
		return usageError{err}
	}
	workload, err := parseWorkload(f.from)
	if err != nil {
		return usageError{err}
	}
	destination, err := policy.ParseDestination(target)
	if err != nil {
		return usageError{err}
	}
	var snapshot *registry.Snapshot
	if f.configDir != "" {
		snapshot, err = readOnce(cmd.Context(), f.configDir, f.meshConfig, cmd.ErrOrStderr())
	} else {
		snapshot, workload, err = f.readCluster(cmd.Context(), workload, cmd.ErrOrStderr())
	}
	if err != nil {
		return err
	}
	v := policy.Decide(snapshot, workload, destination)
	if err := printVerdict(cmd.OutOrStdout(), f.output, workload, destination, v); err != nil {
		return err
	}
	if !v.Allowed {
		return answerNo{}
	}
	return nil
}

// check finds calls that cannot be answered.
func (f *explainFlags) check() error {
	switch {
	case f.configDir == "" && !f.cluster.meant():
		return errors.New("where is the configuration? give --config-dir DIR, or --kubeconfig FILE")
	case f.configDir != "" && f.cluster.given():
		return errors.New("--config-dir and --kubeconfig: give one of the two")
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("-o %q: must be text or json", f.output)
	case f.configDir != "":
		if st, err := os.Stat(f.configDir); err != nil || !st.IsDir() {
			return fmt.Errorf("--config-dir %q: there is no such directory", f.configDir)
		}
	}
	return nil
}

// readCluster makes a snapshot of a cluster, and gives the workload the labels that it has there. What the control plane
// does not use is said.
func (f *explainFlags) readCluster(ctx context.Context, w policy.Workload, errs io.Writer) (*registry.Snapshot, policy.Workload, error) {
	access, err := f.cluster.open(ctx)
	if err != nil {
		return nil, w, err
	}
	if w, err = access.identify(ctx, w); err != nil {
		return nil, w, err
	}
	settings, err := access.settings(ctx, f.meshConfig)
	if err != nil {
		return nil, w, err
	}
	changes, findings, err := access.read(ctx)
	if err != nil {
		return nil, w, err
	}
	for _, finding := range findings {
		switch {
		case finding.Severity != admission.Error:
		case finding.Key.Name == "": // of what cannot be read, nobody knows what it would decide
			return nil, w, fmt.Errorf("no access: %s; %s", finding, access.viewer())
		default:
			fmt.Fprintln(errs, finding)
		}
	}
	snapshot, _ := registry.New(&settings).Apply(changes)
	return snapshot, w, nil
}

// parseWorkload reads NAMESPACE/NAME[?label=value&…].
func parseWorkload(s string) (policy.Workload, error) {
	name, query, _ := strings.Cut(s, "?")
	ns, pod, ok := strings.Cut(name, "/")
	if !ok || ns == "" || pod == "" {
		return policy.Workload{}, fmt.Errorf("--from %q: must be NAMESPACE/WORKLOAD, like default/app", s)
	}
	labels, err := url.ParseQuery(query)
	if err != nil {
		return policy.Workload{}, fmt.Errorf("--from %q: the labels must be label=value&…: %w", s, err)
	}
	w := policy.Workload{Namespace: ns, Name: pod, Labels: map[string]string{}}
	for k := range labels {
		w.Labels[k] = labels.Get(k)
	}
	return w, nil
}

// readOnce makes a snapshot of a directory. What is wrong there is said, and the rest counts, as the control plane
// would have it.
func readOnce(ctx context.Context, configDir, meshConfig string, errs io.Writer) (*registry.Snapshot, error) {
	settings := mesh.Default()
	if meshConfig != "" {
		var err error
		if settings, err = mesh.Load(meshConfig); err != nil {
			return nil, usageError{err}
		}
	}
	var changes []serviceentry.Change
	var findings []admission.Finding
	ctx, done := context.WithCancel(ctx)
	defer done()
	first := true
	err := dir.New(configDir, dir.Options{}).Run(ctx, func(c []serviceentry.Change, f []admission.Finding) {
		if first {
			changes, findings, first = c, f, false
		}
		done()
	})
	if first {
		if err == nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("--config-dir %q: %w", configDir, err)
	}
	for _, f := range findings {
		fmt.Fprintln(errs, f)
	}
	snapshot, _ := registry.New(&settings).Apply(changes)
	return snapshot, nil
}

// explanation is what -o json prints.
type explanation struct {
	Verdict    string         `json:"verdict"`
	Path       string         `json:"path"`
	Cluster    string         `json:"cluster"`
	Gateway    string         `json:"gateway"`
	DecidedBy  explainedOwner `json:"decidedBy"`
	Reason     string         `json:"reason"`
	Suggestion string         `json:"suggestion"`
}

type explainedOwner struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Rule      string `json:"rule"`
}

func printVerdict(w io.Writer, format string, from policy.Workload, d policy.Destination, v policy.Verdict) error {
	e := explanation{
		Verdict: "deny", Path: v.Path, Cluster: v.Cluster, Reason: v.Reason,
		DecidedBy:  explainedOwner{string(v.DecidedBy.Kind), v.DecidedBy.Namespace, v.DecidedBy.Name, v.DecidedBy.Rule},
		Suggestion: policy.Suggestion(from, d, v),
	}
	if v.Allowed {
		e.Verdict = "allow"
	}
	if !v.Gateway.IsZero() {
		e.Gateway = v.Gateway.String()
	}
	if format == "json" {
		return printJSON(w, e)
	}
	fmt.Fprintf(w, "%-11s%s\n", "verdict", e.Verdict)
	fmt.Fprintf(w, "%-11s%s\n", "path", e.Path)
	fmt.Fprintf(w, "%-11s%s\n", "cluster", e.Cluster)
	if e.Gateway != "" {
		fmt.Fprintf(w, "%-11s%s\n", "gateway", e.Gateway)
	}
	fmt.Fprintf(w, "%-11s%s (%s)\n", "decided by", v.DecidedBy.Key, e.DecidedBy.Rule)
	fmt.Fprintf(w, "%-11s%s\n", "reason", e.Reason)
	if e.Suggestion != "" {
		fmt.Fprintf(w, "\nTo register it:\n\n%s", e.Suggestion)
	}
	return nil
}
