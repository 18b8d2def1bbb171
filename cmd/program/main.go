package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
)

// Main executes the root command and ends the process. SIGINT or SIGTERM ends the command's context; a second one ends the
// process at once. SIGHUP does what hangUp says. An error is printed with the program's name before it, unless it only means No, which the command
// has said itself.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), append(hangUp(root.Name()), os.Interrupt, syscall.SIGTERM)...)
	context.AfterFunc(ctx, stop)
	err := root.ExecuteContext(ctx)
	code := ExitCode(err)
	if err != nil && code != No {
		fmt.Fprintf(os.Stderr, "%s: %v\n", root.Name(), err)
	}
	os.Exit(exitAs(code, os.Getenv(UsageEnv)))
}

// UsageEnv is for who starts this program and has to tell a wrong call from a crash: Go ends a program that panics, or whose C code breaks, with the code of a wrong call (2).
// With a number in it that is the code of a wrong call.
const UsageEnv = "SALLYPORT_EXIT_OF_WRONG_CALL"

// exitAs is the exit code where that of a wrong call is to be another one.
func exitAs(code int, usage string) int {
	if n, err := strconv.ParseUint(usage, 10, 8); err == nil && n > Failed && code == Usage {
		return int(n)
	}
	return code
}

// The exit codes.
const (
	Done   = 0
	No     = 1 // the call worked, its answer is no
	Usage  = 2 // the call was wrong
	Failed = 3 // the call was right and failed
)

// Coded is an error that says how the process is to end.
type Coded interface {
	error
	ProcessExit() int
}

// UsageError marks an error that the caller mends by calling differently.
type UsageError struct{ error }

// Misuse is an error as a UsageError.
func Misuse(err error) error { return UsageError{err} }

func (e UsageError) Unwrap() error { return e.error }

// ProcessExit implements [Coded].
func (UsageError) ProcessExit() int { return Usage }

// AnswerNo ends a command whose printed answer is "no".
type AnswerNo struct{}

func (AnswerNo) Error() string { return "the answer is no" }

// ProcessExit implements [Coded].
func (AnswerNo) ProcessExit() int { return No }

// ExitCode maps a command's result to the process's.
func ExitCode(err error) int {
	var coded Coded
	switch {
	case err == nil:
		return Done
	case errors.As(err, &coded):
		return coded.ProcessExit()
	default:
		return Failed
	}
}
