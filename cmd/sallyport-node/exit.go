package main

import "github.com/sallyport/sallyport/cmd/program"

// usageError marks an error that the caller mends by calling differently.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ProcessExit implements [program.Coded].
func (usageError) ProcessExit() int { return program.Usage }
