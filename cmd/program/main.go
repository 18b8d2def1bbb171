package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main executes the root command and ends the process. SIGINT or SIGTERM ends the command's context; a second one ends the
// process at once. An error is printed with the program's name before it, unless it only means No, which the command
// has said itself.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := root.ExecuteContext(ctx)
	code := ExitCode(err)
	if err != nil && code != No {
		fmt.Fprintf(os.Stderr, "%s: %v\n", root.Name(), err)
	}
	os.Exit(code)
}
