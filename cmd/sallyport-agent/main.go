// Command sallyport-agent is the data plane's binary: it catches a pod's traffic, runs its proxy, answers its DNS.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set at build time.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := rootCommand().ExecuteContext(ctx)
	code := exitCode(err)
	if err != nil && code != exitNo {
		fmt.Fprintln(os.Stderr, "sallyport-agent:", err)
	}
	os.Exit(code)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "sallyport-agent",
		Short:         "The data plane's side of Sallyport: a pod's traffic, proxy and names",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(proxyCommand(), initCommand(), dnsCommand(), waitCommand(), requestCommand())
	return root
}
