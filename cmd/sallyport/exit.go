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

// runPlane runs the control plane. What it finds wrong with its settings was a wrong call.
func runPlane(ctx context.Context, cfg controlplane.Config) error {
	err := controlplane.Run(ctx, cfg)
	if setting := (controlplane.WrongSetting{}); errors.As(err, &setting) {
		return program.Misuse(err)
	}
	return err
}

// exitCode maps a command's result to the process's.
func exitCode(err error) int { return program.ExitCode(err) }
