package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// latency is how long single questions took.
type latency struct{ p50, p99 time.Duration }

// miss asks the server for names that it has never been asked for, one after the other.
func (b *bench) miss(ctx context.Context, server netip.AddrPort) (latency, error) {
	times, err := b.ask(ctx, server, b.series("m"), b.misses)
	if err != nil {
		return latency{}, err
	}
	return latency{p50: times[len(times)/2], p99: times[len(times)*99/100]}, nil
}

// ask runs the asking client on the loader's core. The times are sorted.
func (b *bench) ask(ctx context.Context, server netip.AddrPort, series string, count int) ([]time.Duration, error) {
	cmd := b.pinned(ctx, loaderCore, b.self, "ask", server.String(), series, fmt.Sprint(count))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w\n%s", server, err, stderr.String())
	}
	var times []time.Duration
	for line := range bytes.Lines(out) {
		ns, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
		if err != nil {
			return nil, err
		}
		times = append(times, time.Duration(ns))
	}
	if len(times) != count {
		return nil, fmt.Errorf("ask %s: %d answers of %d", server, len(times), count)
	}
	return times, nil
}

// series is a part of names that no other measurement uses.
func (b *bench) series(prefix string) string {
	b.used++
	return fmt.Sprint(prefix, b.used)
}

// asked is how many questions the upstream resolver has answered so far.
func (b *bench) asked() (int, error) {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(b.upstream))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	msg := question(nil, 1, "count", "count")
	msg[len(msg)-3] = 16 // TXT
	if _, err := conn.Write(msg); err != nil {
		return 0, err
	}
	in := make([]byte, 512)
	_ = conn.SetReadDeadline(time.Now().Add(answerTimeout))
	n, err := conn.Read(in)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(in[len(msg)+13 : n]))
}
