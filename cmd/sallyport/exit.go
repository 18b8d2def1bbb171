package main

import (
	"errors"

	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
)

// The exit codes that scripts may rely on.
const (
	exitDone   = 0
	exitNo     = 1 // the call worked, its answer is no
	exitUsage  = 2 // the call was wrong
	exitFailed = 3 // the call was right and failed
)

// usageError marks an error that the caller mends by calling differently.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// answerNo ends a command whose printed answer is "no".
type answerNo struct{}

func (answerNo) Error() string { return "the answer is no" }

// exitCode maps a command's result to the process's.
func exitCode(err error) int {
	var usage usageError
	var setting controlplane.WrongSetting
	var no answerNo
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &no):
		return exitNo
	case errors.As(err, &usage), errors.As(err, &setting):
		return exitUsage
	default:
		return exitFailed
	}
}
