// Package port finds ports of the loopback for programs that are told where to listen, and cannot take one themselves.
// A port that was taken with ":0" and given back is no such port: the kernel gives it to whoever asks next, as a listener's or as a connection's own.
// These are below the range that it gives from.
package port

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// lowest is the first port of which one is given: below it are those of programs that have one of their own.
const lowest = 11000

// Free is a port that nobody has now, by TCP or UDP, and that may be taken: may says so of one that is free. Errors say that none was found.
func Free(may func(port int) bool) (int, error) {
	below := end()
	for range 200 {
		if port := lowest + rand.IntN(below-lowest); isFree(port) && may(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("200 ports between %d and %d are taken", lowest, below)
}

// end is the first port that the kernel gives to whoever does not say which (ip(7), ip_local_port_range). Where all are the kernel's to give, what somebody has is told
// by trying it alone.
func end() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	fields := bytes.Fields(text)
	if err != nil || len(fields) == 0 {
		return 32768
	}
	first, err := strconv.Atoi(string(fields[0]))
	switch {
	case err != nil:
		return 32768
	case first <= lowest:
		return 1 << 16
	}
	return first
}

// isFree says whether a port can be listened at.
func isFree(port int) bool {
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	tcp, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	udp, err := net.ListenPacket("udp", at)
	if err == nil {
		err = udp.Close()
	}
	return errors.Join(err, tcp.Close()) == nil
}
