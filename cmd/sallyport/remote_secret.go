package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/remotesecret"
)

// remoteSecretFlags are those of `sallyport remote-secret`.
type remoteSecretFlags struct {
	remotesecret.Options
	cluster clusterFlags
}

// remoteSecretCommand makes the Secret by which one cluster's control plane reads another cluster.
func remoteSecretCommand() *cobra.Command {
	f := &remoteSecretFlags{}
	cmd := &cobra.Command{
		Use:   "remote-secret --name CLUSTER {--kubeconfig FILE | --context CONTEXT}",
		Short: "Print the Secret by which another cluster's control plane reads this cluster",
		Long: `Print the Secret by which another cluster's control plane reads this cluster. Apply it there: the flags name the cluster that
is to be read, and what is printed goes to the one that reads. Whoever has it can read what it gives rights to: keep it like a password.

In the cluster that is to be read a ServiceAccount is made, which may list and watch Services, EndpointSlices, Pods and Namespaces
and nothing else, and a Secret with its token. That token is valid until the Secret is deleted, since nobody would renew
another one: a cluster whose token expired is not read any more. --duration asks for one that expires, and leaves no Secret
in that cluster; call this again, and apply what it prints, before that. With --create-account=false nothing is written.`,
		Example: `  # west reads east, and east reads west
  sallyport remote-secret --context east --name east | kubectl --context west apply -f -
  sallyport remote-secret --context west --name west | kubectl --context east apply -f -

  # east's API server has another address for west than for you
  sallyport remote-secret --kubeconfig east.kubeconfig --name east --server https://api.east.example.com:6443 > east.yaml

  # a token for thirty days; the account was made before
  sallyport remote-secret --context east --name east --create-account=false --duration 720h`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.Cluster, "name", "", "name of the cluster that is to be read, in the mesh (required)")
	fs.StringVar(&f.Server, "server", "", "where the control plane reaches its API server, https://HOST:PORT (default: as the kubeconfig says)")
	fs.StringVarP(&f.Namespace, "namespace", "n", "istio-system", "namespace of the control plane, in both clusters")
	fs.StringVar(&f.Account, "account", "sallyport-remote-reader", "ServiceAccount that the cluster is read as")
	fs.BoolVar(&f.Create, "create-account", true, "make the ServiceAccount, its ClusterRole, the binding and, without --duration, the Secret with its token")
	fs.DurationVar(&f.Duration, "duration", 0, "how long the token is valid, at least "+remotesecret.MinDuration.String()+"; 0 until its Secret is deleted")
	fs.StringVar(&f.cluster.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster that is to be read")
	fs.StringVar(&f.cluster.context, "context", "", "context in the kubeconfig file (default: its current one); alone, in $KUBECONFIG or ~/.kube/config")
	return cmd
}

func (f *remoteSecretFlags) run(cmd *cobra.Command) error {
	if err := f.Validate(); err != nil {
		return program.Misuse(err)
	}
	if !f.cluster.given() {
		return program.Misuse(errors.New("which cluster is to be read? give --kubeconfig FILE, or --context CONTEXT"))
	}
	access, err := f.cluster.connect()
	if err != nil {
		return err
	}
	secret, expires, err := remotesecret.Make(cmd.Context(), access, f.Options)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(secret)
	if err != nil {
		return err
	}
	if !expires.IsZero() {
		fmt.Fprintf(cmd.ErrOrStderr(), "the token expires at %s: apply another before, or cluster %s is not read any more\n", expires.UTC().Format(time.RFC3339), f.Cluster)
	}
	if f.Server == "" && onLoopback(access.Host) {
		fmt.Fprintf(cmd.ErrOrStderr(), "server %s is this machine's own address: say with --server where another cluster's pods reach it\n", access.Host)
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// onLoopback says whether a server is reached from its own machine only.
func onLoopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
