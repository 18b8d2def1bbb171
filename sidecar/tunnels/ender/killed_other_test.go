//go:build !amd64

package ender

const beTracer = "SALLYPORT_TEST_TRACER"

func traceAndStay(string) { panic(errOther) }
