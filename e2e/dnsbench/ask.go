package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// answerTimeout is when a question counts as lost.
const answerTimeout = 2 * time.Second

// ask asks the server for count names that nobody has asked for before, one after the other on a blocking socket, and
// writes the times until the answers came, in ns and sorted, one a line. Names are of the series: NUMBER.SERIES.bench.example.
func ask(out io.Writer, server netip.AddrPort, series string, count int) error {
	fd, err := connect(server)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	in, msg := make([]byte, 4096), make([]byte, 0, 512)
	times := make([]time.Duration, 0, count)
	for i := range count {
		msg = question(msg[:0], uint16(i), fmt.Sprintf("n%d", i), series)
		start := time.Now()
		if _, err := unix.Write(fd, msg); err != nil {
			return err
		}
		for {
			n, err := unix.Read(fd, in)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return fmt.Errorf("question %d of %d to %s: %w", i+1, count, server, err)
			}
			if n >= 12 && binary.BigEndian.Uint16(in) == uint16(i) {
				break
			}
		}
		times = append(times, time.Since(start))
		if in[3]&0xf != 0 || binary.BigEndian.Uint16(in[6:]) != 1 {
			return fmt.Errorf("question %d of %d to %s: code %d and %d records instead of an address",
				i+1, count, server, in[3]&0xf, binary.BigEndian.Uint16(in[6:]))
		}
	}
	slices.Sort(times)
	for _, t := range times {
		fmt.Fprintln(out, t.Nanoseconds())
	}
	return nil
}

// connect makes a blocking socket: waiting in the kernel costs the client less than Go's poller does.
func connect(server netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	timeout := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		unix.Close(fd)
		return 0, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(server.Port()), Addr: server.Addr().As4()}); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// question appends a question for the address of LABEL.SERIES.bench.example.
func question(msg []byte, id uint16, label, series string) []byte {
	msg = binary.BigEndian.AppendUint16(msg, id)
	msg = append(msg, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for _, l := range []string{label, series, "bench", "example"} {
		msg = append(msg, byte(len(l)))
		msg = append(msg, l...)
	}
	return append(msg, 0, 0, 1, 0, 1)
}
