// Package exitcode holds the exit codes that scripts may rely on, the same for every program of this module.
//
// In: what a command returned. Out: the process's exit code. Each program has types of its own for the errors that mean
// something else than failure; they say so by a method.
package exitcode

import "errors"

// The codes.
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

// Of maps a command's result to the process's.
func Of(err error) int {
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
