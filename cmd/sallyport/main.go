// Command sallyport is the operator's binary: the control plane, the embedded egress proxy, and the questions to both.
package main

import (
	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
)

// version is set at build time.
var version = "dev"

func main() { program.Main(rootCommand()) }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sallyport",
		Short: "Egress control for a mesh: decide, route and record what leaves",
		Long: `Sallyport decides, routes and records what leaves a mesh. Its API is Istio's: one
ServiceEntry registers a host, and everything else follows.

Exit codes: 0 done, 1 the answer is no, 2 the call was wrong, 3 it failed.`,
		Example: `  # an egress proxy on this machine that lets through what DIR registers
  sallyport up ./egress

  # what would happen, and which object says so
  sallyport explain --config-dir ./egress --from default/app https://external.com

  # the ways around the mesh, tried from inside a pod
  sallyport verify --kubeconfig ~/.kube/config --from shop/checkout --target example.com

  # what was tried in the last hour and closed
  sallyport audit query --since 1h --verdict denied

  # what in the last day should not be there
  sallyport detect`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return program.Misuse(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return program.Misuse(err) })
	root.AddCommand(
		upCommand(), controllerCommand(), explainCommand(), lintCommand(), auditCommand(),
		proxiesCommand(), configCommand(), tokenCommand(), caCommand(), injectCommand(), checkCommand(), verifyCommand(), policyCommand(), detectCommand(),
		simulateCommand(), suggestCommand(), reviewCommand(), remoteSecretCommand(), machineFilesCommand(),
	)
	return root
}
