package main

import "github.com/sallyport/sallyport/cmd/exitcode"

// usageError marks an error that the caller mends by calling differently.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ProcessExit implements [exitcode.Coded].
func (usageError) ProcessExit() int { return exitcode.Usage }
