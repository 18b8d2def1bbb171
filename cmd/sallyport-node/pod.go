package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/sidecar/node/cni"
)

// podCommand tells the agent of pods, on hosts whose networks nobody's CNI makes.
func podCommand() *cobra.Command {
	var folder, network, uid string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "pod add|remove|check NAMESPACE/NAME",
		Short: "Tell the node's agent of a pod's network, as the CNI plugin does",
		Long: `Tell the node's agent of a pod's network, as the CNI plugin does.

add returns when the pod is served, or is none of the mesh's. check says why one is not served as it should be.`,
		Example: `  sallyport-node pod add shop/cart-1 --netns /run/netns/cart-1
  sallyport-node pod remove shop/cart-1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(2)(cmd, args); err != nil {
				return program.Misuse(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(cni.Questions, args[0]) {
				return program.Misuse(fmt.Errorf("%q is none of %s", args[0], strings.Join(cni.Questions, ", ")))
			}
			ns, name, ok := strings.Cut(args[1], "/")
			if !ok {
				return program.Misuse(fmt.Errorf("%q: write NAMESPACE/NAME", args[1]))
			}
			if network != "" {
				path, err := filepath.Abs(network)
				if err != nil {
					return err
				}
				network = path
			}
			return cni.Ask(cmd.Context(), folder, cni.Request{Do: args[0], Patience: wait, Local: cni.Local{Namespace: ns, Name: name, UID: uid, Network: network}})
		},
	}
	cmd.Flags().StringVar(&folder, "run-dir", cni.RunDir, "the agent's run directory")
	cmd.Flags().StringVar(&network, "netns", "", "path of the pod's network namespace")
	cmd.Flags().StringVar(&uid, "uid", "", "the pod's uid, where it has one")
	cmd.Flags().DurationVar(&wait, "wait", 10*time.Second, "how long add may take")
	return cmd
}
