// Command sallyport-node is a node's side of Sallyport: it keeps pods from going around their proxies, and serves those that have none.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/sidecar/node/cni"
)

// version is set at build time.
var version = "dev"

func main() {
	root := rootCommand()
	if filepath.Base(os.Args[0]) == cni.Name {
		root.SetArgs([]string{"cni"})
	}
	program.Main(root)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sallyport-node",
		Short: "A node's side of Sallyport: keeps pods from going around their proxies",
		Long: `A node's side of Sallyport: keeps pods from going around their proxies.

Exit codes: 0 done, 2 the call was wrong, 3 it failed.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return program.Misuse(err) })
	root.AddCommand(agentCommand(), cniCommand(), podCommand(), guardCommand(), cleanCommand())
	return root
}

func noArguments(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return program.Misuse(err)
	}
	return nil
}
