//go:build !linux

package datagram

import "net"

const controlSize = 0

// askForDestination does nothing where the kernel chooses the source of an answer by itself.
func askForDestination(*net.UDPConn, bool) error { return nil }

func freeInterface([]byte, bool) {}
