package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/check"
	"github.com/sallyport/sallyport/config/source/wholefile"
	"github.com/sallyport/sallyport/sidecar/inject"
	"github.com/sallyport/sallyport/sidecar/inject/manifest"
)

// Where the injector's settings are in a cluster.
const (
	injectorConfigMap = "sallyport-injector"
	injectorKey       = "config"
)

type injectFlags struct {
	files               []string
	settings, namespace string
	settingsGiven       bool
	cluster             clusterFlags
}

// injectCommand gives proxies to the pods in files.
func injectCommand() *cobra.Command {
	f := &injectFlags{}
	cmd := &cobra.Command{
		Use:   "inject -f FILE|-",
		Short: "Give proxies to the pods in YAML files, as the webhook would",
		Long: `Give proxies to the pods in YAML or JSON files, as the cluster's webhook would, and print the files. Pods, Deployments,
ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, Jobs, CronJobs and lists of them are changed; everything else is
printed byte for byte. Pods that say sidecar.istio.io/inject: "false", use the node's network or have their proxy stay as they are.

HTTP hooks (postStart, preStop) of containers are called by the agent, after each run at other paths, which nobody can guess: applying
what a new run printed makes pods that have them anew.

The settings are those of --injection-config, or with --kubeconfig or --context those of the cluster (ConfigMap
sallyport-injector of the control plane's namespace, and of its ConfigMap istio what that says of pods), or else the defaults. What became of each object, and warnings, go to
standard error. The exit code is 1 when an object asks for what cannot be; nothing is printed then.`,
		Example: `  sallyport inject -f deployment.yaml --injection-config injector.yaml | kubectl apply -f -
  kubectl get deployment web -o yaml | sallyport inject -f - --kubeconfig ~/.kube/config
  helm template ./app | sallyport inject -f - -n shop`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return program.Misuse(fmt.Errorf("name files with -f (%w)", err))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.settingsGiven = cmd.Flags().Changed("injection-config")
			return f.run(cmd)
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVarP(&f.files, "filename", "f", nil, "file with objects, - for standard input; repeat it")
	fs.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of the objects that name none")
	fs.StringVar(&f.settings, "injection-config", "", "file with the injector's settings")
	f.cluster.add(fs)
	return cmd
}

func (f *injectFlags) run(cmd *cobra.Command) error {
	if len(f.files) == 0 {
		return program.Misuse(errors.New("inject takes files with -f FILE, or -f - for standard input; got none"))
	}
	if f.settingsGiven && f.cluster.given() {
		return program.Misuse(errors.New("--injection-config and a cluster (--kubeconfig, --context): name one of the two"))
	}
	settings, err := f.load(cmd.Context())
	if err != nil {
		return err
	}
	var out []byte
	refused := false
	for i, name := range f.files {
		data, err := readObjects(cmd.InOrStdin(), name)
		if err != nil {
			return program.Misuse(fmt.Errorf("-f %s: %w", name, err))
		}
		changed, outcomes, err := manifest.Inject(data, f.namespace, settings)
		tell(cmd.ErrOrStderr(), name, outcomes)
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", name, err)
			refused = true
			continue
		}
		if i > 0 && len(out) > 0 {
			out = append(out, "---\n"...)
		}
		out = append(out, changed...)
	}
	if refused {
		return program.AnswerNo{}
	}
	_, err = cmd.OutOrStdout().Write(out)
	return err
}

func readObjects(stdin io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, manifest.MaxFile+1))
	}
	return wholefile.Read(name, manifest.MaxFile)
}

// tell says what became of each object.
func tell(w io.Writer, name string, outcomes []manifest.Outcome) {
	for _, o := range outcomes {
		what := "injected"
		if !o.Injected {
			what = "stays: " + o.Reason
		}
		fmt.Fprintf(w, "%s:%d: %s: %s\n", name, o.Line, o.Object, what)
		for _, warning := range o.Warnings {
			fmt.Fprintf(w, "%s:%d: %s: warning: %s\n", name, o.Line, o.Object, warning)
		}
	}
}

// load takes the settings from where the flags say.
func (f *injectFlags) load(ctx context.Context) (inject.Settings, error) {
	switch {
	case f.settingsGiven:
		data, err := wholefile.Read(f.settings, manifest.MaxFile)
		if err != nil {
			return inject.Settings{}, program.Misuse(fmt.Errorf("--injection-config: %w", err))
		}
		settings, err := inject.ParseSettings(data)
		if err != nil {
			return settings, program.Misuse(fmt.Errorf("%s: %w", f.settings, err))
		}
		return settings, nil
	case f.cluster.given():
		return f.fromCluster(ctx)
	default:
		return inject.Default(), nil
	}
}

// fromCluster takes the injector's settings and the mesh's: the webhook judges the pods by both.
func (f *injectFlags) fromCluster(ctx context.Context) (inject.Settings, error) {
	access, err := f.cluster.open(ctx)
	if err != nil {
		return inject.Settings{}, err
	}
	text, err := access.injection(ctx)
	if err != nil {
		return inject.Settings{}, err
	}
	mesh, err := access.mesh(ctx)
	if err != nil {
		return inject.Settings{}, err
	}
	settings, err := check.InjectionSettings(text, mesh)
	if err != nil {
		return settings, program.Misuse(fmt.Errorf("ConfigMap %s/%s: %w", f.cluster.namespace, injectorConfigMap, err))
	}
	return settings, nil
}

// injection reads the injector's settings.
func (a *clusterAccess) injection(ctx context.Context) ([]byte, error) {
	found, err := a.client.CoreV1().ConfigMaps(a.system).Get(ctx, injectorConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, a.noAccess(fmt.Errorf("the injector's settings: ConfigMap %s/%s: %w", a.system, injectorConfigMap, err))
	}
	text, ok := found.Data[injectorKey]
	if !ok {
		return nil, fmt.Errorf("the injector's settings: ConfigMap %s/%s has no key %q", a.system, injectorConfigMap, injectorKey)
	}
	return []byte(text), nil
}
