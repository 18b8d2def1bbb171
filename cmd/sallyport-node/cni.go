package main

import (
	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/sidecar/node/cni"
)

// cniCommand is a chained CNI plugin.
func cniCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cni",
		Short: "The CNI plugin: tell the node's agent of each pod, and wait until it is served",
		Long: `The CNI plugin: tell the node's agent of each pod, and wait until it is served.

It comes last in the list of plugins, and is called by the container runtime as the CNI specification says (1.0): by environment variables
and the configuration on standard input, whose "runDir" is the agent's. A pod of the mesh that cannot be served does not start, nor does any
while the agent is away, but for those of the namespaces in "exempt". A binary that is called sallyport-cni is the plugin without being told. sallyport-cni is
the same as a program of its own, which runtimes start in a tenth of the time.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return cni.Run("sallyport-node cni " + version)
		},
	}
}
