package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/kubeca"
)

// caFlags are those of "ca" and its subcommands.
type caFlags struct {
	data     string
	cluster  clusterFlags
	lifetime time.Duration
	output   string
	force    bool
	abandon  bool
}

func caCommand() *cobra.Command {
	var f caFlags
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Look at the mesh's certificate authority, and rotate its root",
		Example: `  sallyport ca status --data /var/lib/sallyport
  sallyport ca rotate --kubeconfig ~/.kube/config`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.data, "data", "", "the data folder of a controller that runs without Kubernetes")
	f.cluster.add(flags)
	flags.DurationVar(&f.lifetime, "cert-ttl", ca.DefaultTTL, "lifetime of workload certificates, as the controller was told")
	flags.StringVarP(&f.output, "output", "o", "table", "table or json")
	cmd.AddCommand(caStatusCommand(&f), caRotateCommand(&f))
	return cmd
}

func caStatusCommand(f *caFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "status {--data DIR | --kubeconfig FILE}",
		Short: "Show which root signs, which are trusted, and how far a rotation is",
		Example: `  sallyport ca status --data /var/lib/sallyport
  sallyport ca status --kubeconfig ~/.kube/config -o json | jq -r .nextAt`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.rotation()
			if err != nil {
				return err
			}
			s, err := r.Status(cmd.Context())
			if err != nil {
				return f.explain(err)
			}
			return f.print(cmd.OutOrStdout(), s)
		},
	}
}

func caRotateCommand(f *caFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate {--data DIR | --kubeconfig FILE}",
		Short: "Take the next step of replacing the mesh's root",
		Long: `Take the next step of replacing the mesh's root. There are three, so that traffic goes on:

  trust  a next root is made and trusted beside the old one, which goes on signing
  sign   the next root signs; the old one stays trusted
  drop   the old root is trusted no more

Call it three times. Each step has to reach every agent before the next one: agents renew their
certificates when half of the lifetime is over, and take the roots with them. A call that comes
too early changes nothing, says when it will be time, and exits with 1; --force overrides that and
breaks the connections of agents that are behind. Controllers follow within a minute by themselves.

A CA that was given (the secret cacerts, --ca-certs) is rotated by whoever made it.`,
		Example: `  sallyport ca rotate --data /var/lib/sallyport
  sallyport ca rotate --kubeconfig ~/.kube/config --system-namespace istio-system
  sallyport ca rotate --data /var/lib/sallyport --abandon   # take the first step back`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.rotate(cmd) },
	}
	cmd.Flags().BoolVar(&f.force, "force", false, "do not wait until every agent has what the last step brought")
	cmd.Flags().BoolVar(&f.abandon, "abandon", false, "take back the step \"trust\": nothing was signed with the next root yet")
	return cmd
}

func (f *caFlags) rotate(cmd *cobra.Command) error {
	if f.force && f.abandon {
		return program.Misuse(errors.New("--force and --abandon exclude each other"))
	}
	r, err := f.rotation()
	if err != nil {
		return err
	}
	var s ca.Status
	if f.abandon {
		s, err = r.Abandon(cmd.Context())
	} else {
		s, err = r.Advance(cmd.Context(), f.force)
	}
	var early *ca.TooEarly
	if errors.As(err, &early) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%v; that is in %s\n", early, time.Until(early.At).Round(time.Minute))
		return program.AnswerNo{}
	}
	if err != nil {
		return f.explain(err)
	}
	return f.print(cmd.OutOrStdout(), s)
}

// rotation opens the CA that the flags name.
func (f *caFlags) rotation() (ca.Rotation, error) {
	if err := f.validate(); err != nil {
		return ca.Rotation{}, program.Misuse(err)
	}
	r := ca.Rotation{Lifetime: f.lifetime}
	if f.data != "" {
		r.Store = ca.InFolder(f.data)
		return r, nil
	}
	config, err := f.cluster.connect()
	if err != nil {
		return ca.Rotation{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return ca.Rotation{}, err
	}
	r.Store = kubeca.NewStore(client.CoreV1(), f.cluster.namespace)
	return r, nil
}

func (f *caFlags) validate() error {
	switch {
	case f.data != "" && f.cluster.given():
		return errors.New("--data and --kubeconfig exclude each other: the CA is in one place")
	case f.data == "" && !f.cluster.meant():
		return errors.New("say where the CA is: --data DIR, or --kubeconfig FILE")
	case f.output != "table" && f.output != "json":
		return fmt.Errorf("-o %q: must be table or json", f.output)
	case f.lifetime < ca.MinTTL:
		return fmt.Errorf("--cert-ttl %s: must be at least %s", f.lifetime, ca.MinTTL)
	case f.cluster.namespace == "":
		return errors.New("--system-namespace is empty: name the control plane's, such as istio-system")
	}
	return nil
}

func (f *caFlags) explain(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no CA yet; the first start of a controller makes it", err)
	}
	return err
}

func (f *caFlags) print(w io.Writer, s ca.Status) error {
	if f.output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ROOT\tROLE\tEXPIRES\tSHA-256")
	for _, c := range s.Roots {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.16s\n", c.Subject, c.Role, c.Expires.UTC().Format(time.DateOnly), c.Fingerprint)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nKept in %s.\n%s\n", s.Origin, caNext(s, time.Now()))
	return err
}

// caNext says in words what comes next.
func caNext(s ca.Status, now time.Time) string {
	switch {
	case s.Given:
		return "It was given: whoever made it rotates it. Signs now: " + s.Signer.Subject + "."
	case s.LastStep == "":
		return `No rotation is under way. "sallyport ca rotate" begins one.`
	case now.Before(s.NextAt):
		return fmt.Sprintf("The step %q was taken at %s. The next one, %q, may follow from %s on (in %s).",
			s.LastStep, s.LastAt.Format(time.RFC3339), s.NextStep, s.NextAt.Format(time.RFC3339), s.NextAt.Sub(now).Round(time.Minute))
	default:
		return fmt.Sprintf("The step %q was taken at %s. The next one, %q, may be taken now.", s.LastStep, s.LastAt.Format(time.RFC3339), s.NextStep)
	}
}
