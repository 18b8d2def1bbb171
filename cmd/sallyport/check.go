package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/check"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/dir"
	"github.com/sallyport/sallyport/sidecar/inject"
)

type checkFlags struct {
	files             []string
	namespace, output string
	strict            bool
	cluster           clusterFlags
}

// checkCommand finds what would break a mesh, or lets traffic go around it.
func checkCommand() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "check {--kubeconfig FILE | -f FILE…}",
		Short: "Find what breaks the mesh in a cluster, or lets traffic go around it",
		Long: `Find what breaks the mesh in a cluster, or lets traffic go around it: pods without a proxy, or that can get
around theirs, or that their node's proxy does not serve (ambient); namespaces that nothing else keeps inside; proxies that are not connected, refuse a part of their
configuration or are of another version; webhooks that are missing or not trusted; a control plane, gateway or CA that is
about to fail. Nothing is changed.

With -f, files are judged before they are applied: the pods of Deployments and so on, and webhook configurations.
Namespaces that are neither in the files nor in the cluster are taken to be part of the mesh.

An error is something that is broken, or a way around the proxy that nothing else closes; with a NetworkPolicy that limits
egress, or the node guard, such a way is a warning. The exit code is 0 when there is no error, 1 when there is one, and 3
when a part could not be checked; with --strict warnings count as errors.`,
		Example: `  sallyport check --kubeconfig ~/.kube/config
  sallyport check --context production -n shop -o json
  helm template ./app | sallyport check --strict -f -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringArrayVarP(&f.files, "filename", "f", nil, "file or directory of objects, - for standard input; repeat it")
	fs.StringVarP(&f.namespace, "namespace", "n", "", "look at this namespace's pods only; with -f, the namespace of objects that name none (default)")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
	fs.BoolVar(&f.strict, "strict", false, "let warnings count as errors")
	f.cluster.add(fs)
	return cmd
}

func (f *checkFlags) run(cmd *cobra.Command) error {
	switch {
	case f.output != "text" && f.output != "json":
		return program.Misuse(fmt.Errorf("-o %q: must be text or json", f.output))
	case len(f.files) == 0 && !f.cluster.meant():
		return program.Misuse(errors.New("what is to be checked? give --kubeconfig FILE for a cluster, or -f FILE"))
	}
	objects := &check.Objects{System: f.cluster.namespace, Injection: inject.Default()}
	if len(f.files) == 0 || f.cluster.given() {
		var err error
		if objects, err = f.readCluster(cmd.Context()); err != nil {
			return err
		}
	}
	var result checkResult
	if len(f.files) > 0 {
		objects.Injectors = nil // the files' count
		if err := f.readFiles(cmd.InOrStdin(), objects, &result); err != nil {
			return err
		}
		result.add(check.Files(objects, time.Now()))
		result.Objects = len(objects.Templates)
	} else {
		result.add(check.Cluster(objects, time.Now()))
		result.Objects = len(objects.Pods)
	}
	result.NotChecked = objects.NotChecked()
	if err := result.print(cmd, f.output, f.strict); err != nil || objects.Complete() {
		return err
	}
	return fmt.Errorf("a part was not checked; the roles %s of the chart have the rights for all but the CA's Secret", viewerRole)
}

// readCluster reads what the API server has, and asks the controllers.
func (f *checkFlags) readCluster(ctx context.Context) (*check.Objects, error) {
	access, err := f.cluster.open(ctx)
	if err != nil {
		return nil, err
	}
	settings, err := access.mesh(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	objects := check.Read(ctx, access.client, access.system, f.namespace, settings)
	if len(f.files) > 0 {
		return objects, nil
	}
	if err := access.readServed(ctx, objects); err != nil {
		objects.Unread[check.PartAmbient] = err
	}
	replicas, failed := access.controllers(ctx)
	defer closeAll(replicas)
	list, err := allProxies(ctx, replicas)
	if failed = errors.Join(failed, err); failed != nil {
		objects.Unread[check.PartProxies] = failed
	}
	for _, p := range list {
		objects.Proxies = append(objects.Proxies, check.Proxy{ID: p.ID, Synced: p.Synced, Refused: p.refused(), Ends: p.Ends})
	}
	return objects, nil
}

func (f *checkFlags) readFiles(stdin io.Reader, objects *check.Objects, result *checkResult) error {
	namespace := f.namespace
	if namespace == "" {
		namespace = "default"
	}
	for _, name := range f.files {
		paths := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			var unread []admission.Finding
			if paths, unread, err = dir.List(name); err != nil {
				return program.Misuse(fmt.Errorf("-f %s: %w", name, err))
			}
			result.add(unread)
		}
		for _, path := range paths {
			data, err := readObjects(stdin, path)
			if err != nil && path != name { // one of a directory's
				result.add([]admission.Finding{dir.Unreadable(path, err)})
				continue
			}
			if err != nil {
				return program.Misuse(fmt.Errorf("-f %s: %w", path, err))
			}
			if path == "-" {
				path = "stdin"
			}
			result.add(objects.AddFile(path, data, namespace))
		}
	}
	return nil
}

// checkResult is the answer, also as -o json prints it.
type checkResult struct {
	lintResult          // its Objects are pods and templates of pods
	NotChecked []string `json:"notChecked,omitempty"`
}

func (c *checkResult) print(cmd *cobra.Command, format string, strict bool) error {
	var err error
	if format == "json" {
		if c.Findings == nil {
			c.Findings = []admission.Finding{}
		}
		err = printJSON(cmd.OutOrStdout(), c)
	} else {
		err = c.text(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	for _, part := range c.NotChecked {
		fmt.Fprintf(cmd.ErrOrStderr(), "not checked: %s\n", part)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d pods: %d errors, %d warnings\n", c.Objects, c.Errors, c.Warnings)
	if c.Errors > 0 || strict && c.Warnings > 0 {
		return program.AnswerNo{}
	}
	return nil
}
