package program

import "errors"

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
