package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/visible"
)

func proxiesCommand() *cobra.Command {
	var admin, output string
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "proxies",
		Short: "List the proxies that are connected, and whether they have taken everything",
		Long: `List the proxies that are connected, whether they have taken everything, and what they refused. In a
cluster all replicas of the controller are asked, through the API server; each proxy is connected to one.`,
		Example: `  sallyport proxies
  sallyport proxies -o json --admin-addr 127.0.0.1:15014
  sallyport proxies --kubeconfig ~/.kube/config`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return program.Misuse(fmt.Errorf("-o %q: must be table or json", output))
			}
			replicas, failed := controllers(cmd.Context(), &cluster, admin)
			defer closeAll(replicas)
			list, err := allProxies(cmd.Context(), replicas)
			if failed = errors.Join(failed, err); failed != nil && len(list) == 0 {
				return failed
			}
			if output == "json" {
				err = printJSON(cmd.OutOrStdout(), list)
			} else {
				err = printProxies(cmd.OutOrStdout(), list, cluster.given())
			}
			return errors.Join(err, failed)
		},
	}
	cmd.Flags().StringVar(&admin, "admin-addr", "127.0.0.1:15014", "the controller's admin address, without a cluster")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	cluster.add(cmd.Flags())
	return cmd
}

// allProxies are those of all replicas, in order of their ids. Those of a replica that does not answer are missing.
func allProxies(ctx context.Context, replicas []replica) ([]connectedProxy, error) {
	all := []connectedProxy{}
	var failed []error
	for _, r := range replicas {
		list, err := r.proxies(ctx)
		all, failed = append(all, list...), append(failed, err)
	}
	slices.SortFunc(all, func(a, b connectedProxy) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Replica, b.Replica))
	})
	return all, errors.Join(failed...)
}

func printProxies(w io.Writer, list []connectedProxy, replicas bool) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	replica := func(name string) string {
		if !replicas {
			return ""
		}
		return name + "\t"
	}
	fmt.Fprintf(t, "PROXY\tNAMESPACE\t%sSYNCED\tREFUSED\n", replica("REPLICA"))
	for _, p := range list {
		fmt.Fprintf(t, "%s\t%s\t%s%t\t%s\n", p.ID, p.Namespace, replica(p.Replica), p.Synced, strings.Join(p.refused(), "; "))
	}
	return t.Flush()
}

// refused is what the proxy did not take, in the proxy's words.
func (p connectedProxy) refused() []string {
	var refused []string
	for _, s := range p.Types {
		if s.Problem != "" {
			refused = append(refused, s.Problem)
		}
	}
	slices.Sort(refused)
	return refused
}

func printJSON(w io.Writer, v any) error {
	e := visible.Encoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func configCommand() *cobra.Command {
	var admin, output string
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "config PROXY",
		Short: "Show what a connected proxy was given",
		Long: `Show what a connected proxy was given. PROXY is an id as "sallyport proxies" prints it, or its pod:
NAMESPACE/POD or POD.NAMESPACE.`,
		Example: `  sallyport config sidecar~10.0.0.1~app.default~default.svc.cluster.local
  sallyport config --kubeconfig ~/.kube/config shop/web-7d4b9c6f5-x2x9p | jq .clusters
  sallyport config "$(sallyport proxies -o json | jq -r '.[0].id')" | jq .clusters`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return program.Misuse(fmt.Errorf("config takes one proxy's id; see sallyport proxies"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "json" {
				return program.Misuse(fmt.Errorf("-o %q: must be json", output))
			}
			replicas, failed := controllers(cmd.Context(), &cluster, admin)
			defer closeAll(replicas)
			if len(replicas) == 0 {
				return failed
			}
			body, err := configOf(cmd.Context(), replicas, args[0])
			if err != nil {
				return errors.Join(err, failed)
			}
			_, err = cmd.OutOrStdout().Write(body)
			return err
		},
	}
	cmd.Flags().StringVar(&admin, "admin-addr", "127.0.0.1:15014", "the controller's admin address, without a cluster")
	cmd.Flags().StringVarP(&output, "output", "o", "json", "json")
	cluster.add(cmd.Flags())
	return cmd
}

// configOf asks the replica that the proxy is connected to.
func configOf(ctx context.Context, replicas []replica, proxy string) ([]byte, error) {
	var failed []error
	for _, r := range replicas {
		list, err := r.proxies(ctx)
		failed = append(failed, err)
		for _, p := range list {
			if isProxy(p.ID, proxy) {
				return r.ask(ctx, "/debug/xds", url.Values{"proxy": {p.ID}})
			}
		}
	}
	if err := errors.Join(failed...); err != nil { // it may be connected where nobody answers
		return nil, err
	}
	return nil, fmt.Errorf("no proxy with the id %s is connected; see sallyport proxies", proxy)
}

// isProxy says whether an id is meant: by itself, or by NAMESPACE/POD or POD.NAMESPACE.
func isProxy(id, meant string) bool {
	if id == meant {
		return true
	}
	parts := strings.Split(id, "~")
	if len(parts) != 4 {
		return false
	}
	if namespace, pod, ok := strings.Cut(meant, "/"); ok {
		meant = pod + "." + namespace
	}
	return parts[2] == meant
}
