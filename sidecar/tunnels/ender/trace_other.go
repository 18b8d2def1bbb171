//go:build !amd64

package ender

import "errors"

// traces says whether processes are traced on this kind of processor.
const traces = false

type thread struct{}

var errOther = errors.New("threads are told what to call on amd64 alone")

func throughThread(int, func(*thread) error) error { return errOther }

func (*thread) call(_, _, _, _ uintptr) (uintptr, error) { return 0, errOther }
func (*thread) scratch(int) (uintptr, error)             { return 0, errOther }

func ptrace(int, int, uintptr, uintptr) error { return errOther }
