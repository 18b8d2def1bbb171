package cni

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
)

// Name is the plugin's binary among those of the runtime.
const Name = "sallyport-cni"

// RunDir is where the agent and the plugin meet, unless they are told otherwise.
const RunDir = "/var/run/sallyport-node"

// Run answers the runtime, which has called the program by environment variables and the configuration on standard input. What failed is on standard output then, where the
// runtime reads it.
func Run(about string) error {
	if err := skel.PluginMainFuncsWithError(skel.CNIFuncs{
		Add:   func(a *skel.CmdArgs) error { return do(a, Add) },
		Del:   func(a *skel.CmdArgs) error { return do(a, Remove) },
		Check: func(a *skel.CmdArgs) error { return do(a, Check) },
	}, cniversion.All, about); err != nil {
		_ = err.Print()
		return err
	}
	return nil
}

// config is the plugin's part of the network's configuration.
type config struct {
	types.PluginConf
	RunDir string   `json:"runDir"`
	Exempt []string `json:"exempt"`
}

// arguments are those by which Kubernetes' runtimes name the pod.
type arguments struct {
	types.CommonArgs
	K8S_POD_NAMESPACE, K8S_POD_NAME, K8S_POD_UID types.UnmarshallableString // named by the specification
}

// startPatience is how long a pod may take to be served: less than a runtime waits for its plugins.
const startPatience = 30 * time.Second

// awayPatience is how long a pod's start waits for an agent where none answers: one that another relieves may be ending.
const awayPatience = 2 * time.Second

// ask asks the agent, and when it is away, a pod's start does so again. One that was asked for long, and did not answer, was there.
func ask(ctx context.Context, runDir string, r Request) error {
	whole, began, away := r.Patience, time.Now(), time.Time{}
	for {
		asked := time.Now()
		err := Ask(ctx, runDir, r)
		if r.Do != Add || !errors.Is(err, ErrAway) {
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

func do(a *skel.CmdArgs, what string) error {
	c := config{RunDir: RunDir}
	if err := json.Unmarshal(a.StdinData, &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := cniversion.ParsePrevResult(&c.PluginConf); err != nil {
		return err
	}
	var pod arguments
	if err := types.LoadArgs(a.Args, &pod); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience+5*time.Second)
	defer cancel()
	if what == Add && pod.K8S_POD_NAME != "" && a.Netns != "" { // whoever's it is
		if err := Leave(a.Netns); err != nil {
			fmt.Fprintln(os.Stderr, "the node's network is not left for its agent, which then does not serve pods with probes under STRICT:", err)
		}
	}
	if pod.K8S_POD_NAME != "" && !slices.Contains(c.Exempt, string(pod.K8S_POD_NAMESPACE)) { // else it is no pod of Kubernetes', or none of the mesh's
		if what == Add {
			_ = MigrateRequests(a.Netns) // older kernels have no such setting
		}
		err := ask(ctx, c.RunDir, Request{Do: what, Patience: startPatience, Local: Local{
			Namespace: string(pod.K8S_POD_NAMESPACE), Name: string(pod.K8S_POD_NAME), UID: string(pod.K8S_POD_UID), Network: a.Netns,
		}})
		if err != nil && what != Remove { // an agent that is away finds out by itself that a pod's network is gone
			return err
		}
	}
	if what != Add {
		return nil
	}
	if c.PrevResult == nil {
		return types.PrintResult(&current.Result{CNIVersion: c.CNIVersion}, c.CNIVersion)
	}
	return types.PrintResult(c.PrevResult, c.CNIVersion)
}
