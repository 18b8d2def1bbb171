package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/sidecar/verify"
)

// verifyCommand tries the ways out from where it runs.
func verifyCommand() *cobra.Command {
	var flags *verify.Flags
	var output string
	cmd := &cobra.Command{
		Use:   "verify [--target HOST] [--target-ip ADDRESS] [--resolver ADDRESS] …",
		Short: "Try the ways out of this pod for real",
		Long: `Try the ways out of this pod, or of any network namespace that this program is started in, for real, and say of each
whether it is closed or open, and what was seen. Run it as the user of an app: what the proxy's user (1337) sends is not caught.

Nobody is talked to but the targets that are given, the pod's name server and the metadata services of clouds, and each with a
handful of packets. What has no target is skipped, and the flag that would give it one is named. Targets must be such as
answer to those who may ask: of one that is down nobody can tell whether it was reached.

"sallyport verify" runs this in a pod, and says which object decides and how to close what is open. The exit code is 0
when all that was tried is closed, 1 when something is open, 2 when the call was wrong, and 3 when something could not be told.`,
		Example: `  sallyport-agent verify --target example.com --target-ip 203.0.113.5 --resolver 203.0.113.53
  sallyport-agent verify --only metadata -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return program.Misuse(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVerify(cmd.Context(), flags, output, cmd.OutOrStdout())
		},
	}
	cmd.Flags().SortFlags = false
	flags = verify.Bind(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json (on one line)")
	return cmd
}

func runVerify(ctx context.Context, flags *verify.Flags, output string, out io.Writer) error {
	if output != "table" && output != "json" {
		return program.Misuse(fmt.Errorf("-o %q: must be table or json", output))
	}
	env, err := flags.Env()
	if err != nil {
		return program.Misuse(err)
	}
	ways, err := flags.Ways()
	if err != nil {
		return program.Misuse(err)
	}
	report := verify.Run(ctx, env, ways, func(verify.Way) {})
	if output == "json" {
		if err := json.NewEncoder(out).Encode(report); err != nil {
			return err
		}
	} else {
		report.Print(out)
	}
	switch {
	case report.Count(verify.Open) > 0:
		return program.AnswerNo{}
	case report.Count(verify.Unclear) > 0:
		return errors.New("of some ways it could not be told whether they are open")
	case report.Count(verify.Closed) == 0:
		return errors.New("nothing was tried: give targets")
	}
	return nil
}
