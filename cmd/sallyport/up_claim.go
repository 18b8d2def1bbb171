package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sallyport/sallyport/cmd/program"
)

// claim takes a data directory for one "up", until the process ends however it ends. Two of them would answer for each
// other's proxies.
func claim(data string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Join(data, "up"), 0o700); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(data, "up", "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = errors.Join(err, f.Close())
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, program.Misuse(fmt.Errorf("--data %q: another sallyport up is running with it; stop that one, or give this one a directory of its own", data))
		}
		return nil, fmt.Errorf("--data %q: %w", data, err)
	}
	return f, nil
}

// freeAddress reads IP:PORT, takes a free port for port 0, and fails when somebody listens there.
func freeAddress(flag, text string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return addr, fmt.Errorf("%s %q: must be IP:PORT, like 127.0.0.1:3128", flag, text)
	}
	l, err := net.Listen("tcp", addr.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return addr, fmt.Errorf("%s %q: something listens there already; stop it, or choose another port (0 takes a free one)", flag, text)
	}
	if err != nil {
		return addr, fmt.Errorf("%s %q: %w", flag, text, err)
	}
	defer func() { _ = l.Close() }()
	return netip.AddrPortFrom(addr.Addr(), uint16(l.Addr().(*net.TCPAddr).Port)), nil
}
