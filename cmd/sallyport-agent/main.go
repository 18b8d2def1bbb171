// Command sallyport-agent is the data plane's binary: it catches a pod's traffic, runs its proxy, answers its DNS.
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
		Use:           "sallyport-agent",
		Short:         "The data plane's side of Sallyport: a pod's traffic, proxy and names",
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
	root.AddCommand(proxyCommand(), initCommand(), dnsCommand(), waitCommand(), requestCommand(), verifyCommand(), endCommand())
	return root
}

// The exit codes that scripts may rely on.
const (
	exitDone   = program.Done
	exitNo     = program.No
	exitUsage  = program.Usage
	exitFailed = program.Failed
)

// exitCode maps a command's result to the process's.
func exitCode(err error) int { return program.ExitCode(err) }
