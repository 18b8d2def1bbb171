package main

import (
	"context"
	"errors"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
)

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

// answerNo ends a command whose printed answer is "no".
type answerNo struct{}

func (answerNo) Error() string { return "the answer is no" }

// ProcessExit implements [program.Coded].
func (answerNo) ProcessExit() int { return exitNo }

// runPlane runs the control plane. What it finds wrong with its settings was a wrong call.
func runPlane(ctx context.Context, cfg controlplane.Config) error {
	err := controlplane.Run(ctx, cfg)
	if setting := (controlplane.WrongSetting{}); errors.As(err, &setting) {
		return usageError{err}
	}
	return err
}

// exitCode maps a command's result to the process's.
func exitCode(err error) int { return program.ExitCode(err) }
