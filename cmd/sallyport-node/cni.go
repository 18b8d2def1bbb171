package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	cniversion "github.com/containernetworking/cni/pkg/version"
	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/sidecar/node"
	"github.com/sallyport/sallyport/sidecar/node/kubelet"
)

// pluginName is the plugin's binary among those of the runtime.
const pluginName = "sallyport-cni"

// cniCommand is a chained CNI plugin.
func cniCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cni",
		Short: "The CNI plugin: tell the node's agent of each pod, and wait until it is served",
		Long: `The CNI plugin: tell the node's agent of each pod, and wait until it is served.

It comes last in the list of plugins, and is called by the container runtime as the CNI specification says (1.0): by environment variables
and the configuration on standard input, whose "runDir" is the agent's. A pod of the mesh that cannot be served does not start, nor does any
while the agent is away, but for those of the namespaces in "exempt". A binary that is called sallyport-cni is the plugin without being told.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := skel.PluginMainFuncsWithError(skel.CNIFuncs{
				Add:   func(a *skel.CmdArgs) error { return cniDo(a, node.Add) },
				Del:   func(a *skel.CmdArgs) error { return cniDo(a, node.Remove) },
				Check: func(a *skel.CmdArgs) error { return cniDo(a, node.Check) },
			}, cniversion.All, "sallyport-node cni "+version); err != nil {
				_ = err.Print() // on standard output, where the runtime reads it
				return err
			}
			return nil
		},
	}
}

// cniConfig is the plugin's part of the network's configuration.
type cniConfig struct {
	types.PluginConf
	RunDir string   `json:"runDir"`
	Exempt []string `json:"exempt"`
}

// cniArgs are those by which Kubernetes' runtimes name the pod.
type cniArgs struct {
	types.CommonArgs
	K8S_POD_NAMESPACE, K8S_POD_NAME, K8S_POD_UID types.UnmarshallableString // named by the specification
}

// cniPatience is how long a pod may take to be served: less than a runtime waits for its plugins.
const cniPatience = 30 * time.Second

// awayPatience is how long a pod's start waits for an agent where none answers: one that another relieves may be ending.
const awayPatience = 2 * time.Second

// ask asks the agent, and when it is away, a pod's start does so again. One that was asked for long, and did not answer, was there.
func ask(ctx context.Context, runDir string, r node.Request) error {
	whole, began, away := r.Patience, time.Now(), time.Time{}
	for {
		asked := time.Now()
		err := node.Ask(ctx, runDir, r)
		if r.Do != node.Add || !errors.Is(err, node.ErrAway) {
			return err
		}
		if away.IsZero() || time.Since(asked) > awayPatience {
			away = time.Now()
		}
		if r.Patience = whole - time.Since(began); time.Since(away) > awayPatience || r.Patience <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func cniDo(a *skel.CmdArgs, do string) error {
	c := cniConfig{RunDir: runDir}
	if err := json.Unmarshal(a.StdinData, &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := cniversion.ParsePrevResult(&c.PluginConf); err != nil {
		return err
	}
	var pod cniArgs
	if err := types.LoadArgs(a.Args, &pod); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), cniPatience+5*time.Second)
	defer cancel()
	if do == node.Add && pod.K8S_POD_NAME != "" && a.Netns != "" { // whoever's it is
		if err := kubelet.Leave(a.Netns); err != nil {
			fmt.Fprintln(os.Stderr, "the node's network is not left for its agent, which then does not serve pods with probes under STRICT:", err)
		}
	}
	if pod.K8S_POD_NAME != "" && !slices.Contains(c.Exempt, string(pod.K8S_POD_NAMESPACE)) { // else it is no pod of Kubernetes', or none of the mesh's
		if do == node.Add {
			_ = node.MigrateRequests(a.Netns) // older kernels have no such setting
		}
		err := ask(ctx, c.RunDir, node.Request{Do: do, Patience: cniPatience, Local: node.Local{
			Namespace: string(pod.K8S_POD_NAMESPACE), Name: string(pod.K8S_POD_NAME), UID: string(pod.K8S_POD_UID), Network: a.Netns,
		}})
		if err != nil && do != node.Remove { // an agent that is away finds out by itself that a pod's network is gone
			return err
		}
	}
	if do != node.Add {
		return nil
	}
	if c.PrevResult == nil {
		return types.PrintResult(&current.Result{CNIVersion: c.CNIVersion}, c.CNIVersion)
	}
	return types.PrintResult(c.PrevResult, c.CNIVersion)
}
