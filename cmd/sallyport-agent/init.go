package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/redirect/kernel"
)

// initFlags are those of the command itself; the rest are package redirect's.
type initFlags struct {
	settings      *redirect.Settings
	dryRun, clean bool
	output        string
	wait          time.Duration
	verbose       bool
}

// initCommand writes the iptables rules of a pod and ends.
func initCommand() *cobra.Command {
	var flags initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Catch a pod's traffic: write its iptables rules, then end",
		Long: `Catch a pod's traffic: write its iptables rules, then end.

Takes istio-init's flags and environment variables. Outbound TCP goes to the proxy's port 15001, inbound TCP to 15006, DNS queries to the
agent's port 15053; the proxy's own traffic (user or group 1337) goes where it wants. IPv4 and IPv6.
A second run with the same flags changes nothing, one with others replaces the rules without a moment in which traffic is not caught.
Rules of others are left alone.`,
		Example: `  # what the injector's init container runs
  sallyport-agent init -p 15001 -z 15006 -u 1337 -m REDIRECT -i '*' -x '' -b '*' -d 15090,15020

  # see the rules without writing them
  sallyport-agent init --dry-run
  sallyport-agent init --dry-run --output json

  # no QUIC either, and nothing on the second network
  sallyport-agent init --block-quic -c net1

  # take everything away again
  sallyport-agent init --clean`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return program.Misuse(err)
			}
			return nil
		},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := redirect.FromEnvironment(cmd.Flags(), os.Getenv); err != nil {
				return program.Misuse(err)
			}
			return runInit(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	flags.settings = redirect.Bind(fs)
	fs.BoolVarP(&flags.dryRun, "dry-run", "n", false, "print what would be written, for iptables-restore, and write nothing")
	fs.BoolVar(&flags.clean, "clean", false, "remove the rules (no error if there are none)")
	fs.StringVar(&flags.output, "output", "text", "how --dry-run prints: text or json")
	fs.DurationVar(&flags.wait, "wait", 30*time.Second, "how long to wait for others who are changing rules")
	fs.BoolVarP(&flags.verbose, "verbose", "v", false, "log what is written")
	return cmd
}

// runInit checks everything before it touches anything.
func runInit(ctx context.Context, flags initFlags, stdout, stderr io.Writer) error {
	if flags.output != "text" && flags.output != "json" {
		return program.Misuse(fmt.Errorf("--output %q: say text or json", flags.output))
	}
	if flags.wait <= 0 {
		return program.Misuse(fmt.Errorf("--wait %s: must be more than nothing", flags.wait))
	}
	choice, err := flags.settings.IPv6Choice()
	if err != nil {
		return program.Misuse(err)
	}
	if flags.settings.OutboundPortsExclude == "json" {
		return program.Misuse(errors.New("-o \"json\": -o is istio-init's list of outbound ports not to catch; for JSON say --output json"))
	}
	if _, err := flags.settings.Options(false); err != nil {
		return program.Misuse(err)
	}
	ipv6, err := kernel.UseIPv6(os.DirFS("/proc"), choice)
	if err != nil {
		return err
	}
	options, err := flags.settings.Options(ipv6)
	if err != nil {
		return program.Misuse(err)
	}
	level := slog.LevelInfo
	if flags.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	divert := redirect.Divert{Mark: options.TProxyMark, Table: options.TProxyTable}
	ctx, cancel := context.WithTimeout(ctx, flags.wait+time.Minute)
	defer cancel()
	switch plan := redirect.Build(options); {
	case flags.clean:
		return kernel.Clean(ctx, divert, kernel.Run{Wait: flags.wait, Log: log, DryRun: flags.dryRun, Out: stdout})
	case flags.dryRun && flags.output == "json":
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(plan)
	case flags.dryRun:
		_, err := io.WriteString(stdout, plan.Text())
		return err
	default:
		return kernel.Apply(ctx, plan, divert, kernel.Run{Wait: flags.wait, Log: log})
	}
}
