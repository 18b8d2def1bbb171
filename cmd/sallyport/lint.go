package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/dir"
	"github.com/sallyport/sallyport/config/source/wholefile"
	"github.com/sallyport/sallyport/egress/simulate"
)

type lintFlags struct {
	output, meshConfig string
	strict             bool
	cluster            clusterFlags
}

func lintCommand() *cobra.Command {
	f := &lintFlags{}
	cmd := &cobra.Command{
		Use:   "lint [FILE…]",
		Short: "Find objects that would be rejected or do not do what they seem to",
		Long: `Find every object that would be rejected, or that does not do what it seems to. A FILE is
a YAML or JSON file, a directory of them, or - for standard input. The files are judged
together, as if they were the whole configuration, in the words that the control plane uses.
What cannot be read in a directory is an error beside others.

With --kubeconfig or --context a cluster is judged. FILEs beside it are judged as if they were
applied to it: what is said is about them, and about what they change for the cluster's objects.

The exit code is 0 when there is no error, 1 when there is one; with --strict warnings count.`,
		Example: `  sallyport lint ./mesh
  sallyport lint --strict -o json serviceentry.yaml gateway.yaml
  sallyport lint --kubeconfig ~/.kube/config
  sallyport lint --context staging serviceentry.yaml
  kubectl get serviceentries,virtualservices -A -o yaml | sallyport lint --mesh-config mesh.yaml -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !f.cluster.meant() {
				return program.Misuse(errors.New("lint takes files and directories, or - for standard input; got none; without them, name a cluster with --kubeconfig"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	cmd.Flags().StringVar(&f.meshConfig, "mesh-config", "", "file with Istio's MeshConfig; in a cluster the control plane's is the default")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "let warnings count as errors")
	f.cluster.add(cmd.Flags())
	return cmd
}

func (f *lintFlags) run(cmd *cobra.Command, args []string) error {
	if f.output != "text" && f.output != "json" {
		return program.Misuse(fmt.Errorf("-o %q: must be text or json", f.output))
	}
	var result lintResult
	var objects []config.Object
	for _, arg := range args {
		found, err := lintArgument(cmd.InOrStdin(), arg, &result)
		if err != nil {
			return program.Misuse(fmt.Errorf("lint: %w", err))
		}
		objects = append(objects, found...)
	}
	var err error
	if len(args) == 0 || f.cluster.given() {
		err = f.judgeCluster(cmd.Context(), &result, objects, len(args) == 0)
	} else {
		err = f.judge(&result, objects)
	}
	if err != nil {
		return err
	}
	return result.print(cmd, f.output, f.strict)
}

// judge takes the files for the whole configuration.
func (f *lintFlags) judge(result *lintResult, objects []config.Object) error {
	cfg := mesh.Default()
	if f.meshConfig != "" {
		loaded, err := mesh.Load(f.meshConfig)
		if err != nil {
			return program.Misuse(err)
		}
		cfg = loaded
	}
	result.add(checkTogether(objects, cfg, time.Now()))
	result.Objects = len(objects)
	return nil
}

// checkTogether is what is said of all objects: of those of the Gateway API also what their statuses would say.
func checkTogether(objects []config.Object, cfg mesh.Config, now time.Time) []admission.Finding {
	return append(admission.CheckAt(objects, cfg, now), admission.CheckGateways(objects, cfg)...)
}

// judgeCluster judges a cluster's objects, or what objects of files would bring to it.
func (f *lintFlags) judgeCluster(ctx context.Context, result *lintResult, objects []config.Object, alone bool) error {
	access, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	cfg, err := access.settings(ctx, f.meshConfig)
	if err != nil {
		return err
	}
	changes, findings, err := access.read(ctx)
	if err != nil {
		return err
	}
	var there []config.Object
	noPods := slices.ContainsFunc(findings, func(x admission.Finding) bool { return x.Key == config.Key{Kind: config.KindPod} })
	beside := 0 // Pods and EndpointSlices, which controllers write: little is said about these, but of who selects them
	for _, c := range changes {
		slice := c.Key.Kind == config.KindEndpointSlice
		if slice && noPods {
			continue // whose addresses they have is not known where Pods may not be read
		}
		there = append(there, *c.Object)
		if slice || c.Key.Kind == config.KindPod {
			beside++
		}
	}
	now := time.Now()
	before := checkTogether(there, cfg, now)
	if alone {
		result.add(findings)
		result.add(before)
		result.Objects = len(there) - beside
		return nil
	}
	result.add(slices.DeleteFunc(checkTogether(simulate.Applied(there, objects), cfg, now), func(x admission.Finding) bool {
		return !slices.ContainsFunc(objects, func(o config.Object) bool { return o.Key == x.Key }) && slices.Contains(before, x)
	}))
	result.Objects = len(objects)
	return nil
}

// lintArgument reads a file, a directory or standard input, and adds what is wrong with each object. What cannot be read in a directory is found wrong, beside the rest.
func lintArgument(stdin io.Reader, arg string, result *lintResult) ([]config.Object, error) {
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, decode.MaxFile+1))
		return lintData("stdin", data, result), err
	}
	info, err := os.Stat(arg)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		data, err := wholefile.Read(arg, decode.MaxFile)
		if err != nil {
			return nil, err
		}
		return lintData(arg, data, result), nil
	}
	paths, unread, err := dir.List(arg)
	if err != nil {
		return nil, err
	}
	result.add(unread)
	var objects []config.Object
	for _, path := range paths {
		data, err := wholefile.Read(path, decode.MaxFile)
		if err != nil {
			result.add([]admission.Finding{dir.Unreadable(path, err)})
			continue
		}
		objects = append(objects, lintData(path, data, result)...)
	}
	return objects, nil
}

func lintData(name string, data []byte, result *lintResult) []config.Object {
	r := decode.File(name, data)
	result.add(r.Findings)
	for _, o := range r.Objects {
		result.add(admission.Validate(o))
	}
	return r.Objects
}

// lintResult is the answer, also as -o json prints it.
type lintResult struct {
	Objects  int                 `json:"objects"`
	Errors   int                 `json:"errors"`
	Warnings int                 `json:"warnings"`
	Findings []admission.Finding `json:"findings"`
}

func (l *lintResult) add(findings []admission.Finding) {
	l.Findings = append(l.Findings, findings...)
	for _, f := range findings {
		switch f.Severity {
		case admission.Error:
			l.Errors++
		case admission.Warning:
			l.Warnings++
		}
	}
}

// print writes the answer, and returns it as an exit code.
func (l *lintResult) print(cmd *cobra.Command, format string, strict bool) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	write := l.text
	if format == "json" {
		write = l.json
	}
	if err := errors.Join(write(out), out.Flush()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d objects: %d errors, %d warnings\n", l.Objects, l.Errors, l.Warnings)
	if l.Errors > 0 || (strict && l.Warnings > 0) {
		return program.AnswerNo{}
	}
	return nil
}

// text prints the findings below the place and the object that they are about.
func (l *lintResult) text(w io.Writer) error {
	for _, group := range admission.ByOrigin(l.Findings) {
		if _, err := fmt.Fprintln(w, group[0].Where()); err != nil {
			return err
		}
		for _, f := range group {
			fmt.Fprintf(w, "  %s: %s\n", f.Severity, f.What())
		}
	}
	return nil
}

func (l *lintResult) json(w io.Writer) error {
	if l.Findings == nil {
		l.Findings = []admission.Finding{}
	}
	return printJSON(w, l)
}
