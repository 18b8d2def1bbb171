package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// bench is one run of the program.
type bench struct {
	self, agent, coreDNS string
	rounds               int
	seconds              float64
	outstanding          int // questions that dnsperf lets wait at a time
	misses, kept         int // names
	nice                 int
	realtime             bool
	doc                  string

	dir, input string
	upstream   netip.AddrPort
	used       int // series of names
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dnsbench:", err)
		if errors.Is(err, errMissed) {
			os.Exit(1)
		}
		os.Exit(3)
	}
}

// command runs one of the parts that the program starts of itself, or the whole.
func command(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "authority":
		return authority(args[1])
	case len(args) == 3 && args[0] == "echo":
		return echo(args[1], args[2])
	case len(args) == 4 && args[0] == "ask":
		server, err := netip.ParseAddrPort(args[1])
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return ask(os.Stdout, server, args[2], count)
	}
	b := &bench{}
	f := flag.NewFlagSet("dnsbench", flag.ExitOnError)
	f.StringVar(&b.agent, "agent", "bin/sallyport-agent", "the built sallyport-agent")
	f.StringVar(&b.coreDNS, "coredns", "coredns", "the built CoreDNS")
	f.IntVar(&b.rounds, "rounds", 5, "how often everything is measured; the medians are reported")
	f.Float64Var(&b.seconds, "seconds", 3, "how long dnsperf asks each server in a round")
	f.IntVar(&b.outstanding, "outstanding", 100, "questions that dnsperf lets wait at a time")
	f.IntVar(&b.misses, "misses", 10_000, "names that are asked for once in a round")
	f.IntVar(&b.kept, "kept", 100_000, "names that a server is to keep")
	f.IntVar(&b.nice, "nice", -5, "priority of everything that is measured; below 0 needs root")
	f.BoolVar(&b.realtime, "realtime", false, "run everything that is measured at real-time priority (SCHED_FIFO) instead: for machines with other work; needs root")
	f.StringVar(&b.doc, "doc", "", "Markdown file to write the figures into, between its markers")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is not understood: see -help", f.Args())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return b.all(ctx)
}
