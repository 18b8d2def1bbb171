package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
	"github.com/sallyport/sallyport/sidecar/nodeguard/kernel"
)

// cleanCommand takes the rules away.
func cleanCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "clean",
		Aliases: []string{"uninstall"},
		Short:   "Remove the guard's rules from this node",
		Long: `Remove the guard's rules from this node: the nftables table ` + nodeguard.Table + `, and nothing else.

The rules outlive the guard, so that what is blocked stays blocked. A guard that runs writes them again: end it first, or let it
remove them itself, with guard --on-exit=release.`,
		Example: `  # on the node, as root
  sallyport-node clean`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			there, err := kernel.Open().Clean()
			if err != nil {
				return err
			}
			said := "removed the table " + nodeguard.Table
			if !there {
				said = "there is no table " + nodeguard.Table
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
			return err
		},
	}
}
