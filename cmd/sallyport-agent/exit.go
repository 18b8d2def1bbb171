package main

import "github.com/sallyport/sallyport/cmd/program"

// The exit codes that scripts may rely on.
const (
	exitDone   = program.Done
	exitNo     = program.No
	exitUsage  = program.Usage
	exitFailed = program.Failed
)

// usageError marks an error that the caller mends by calling differently.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ProcessExit implements [program.Coded].
func (usageError) ProcessExit() int { return exitUsage }

// exitCode maps a command's result to the process's.
func exitCode(err error) int { return program.ExitCode(err) }
