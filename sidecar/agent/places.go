package agent

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/durable"
)

// placesStat is how many of the connections that Envoy may have are taken, in percent.
const placesStat = "overload.envoy.resource_monitors.global_downstream_max_connections.pressure"

// The parts of all places, in percent, from which connections that rest get less and less time, as they do when memory runs short
// (package bootstrap); and from which is looked more often, since what is left may be taken soon.
const (
	scarceFrom, scarceAt = 75, 95
	watchedFrom          = 50
)

// fewFrom is from how many percent on who has most has to give some back.
const fewFrom = 95

// easing is how much less Envoy is told than the time before when places come free: whoever took them would take them again at once.
const easing = 0.1

// places tells Envoy how scarce its places are, by a file that its overload manager watches. Envoy counts them, but refuses what is too much,
// and does nothing before it: whoever rests on all of them would have everybody else refused for as long as connections may rest.
type places struct {
	log    *slog.Logger
	file   string
	scarce float64 // as Envoy was told: 0 to 1
	// makeRoom ends some of the connections of who has most, and says how many; nil is that nobody does.
	makeRoom func(ctx context.Context, percent uint64) (int, error)
}

// newPlaces makes the file. Where a full disk has no room for it, Envoy goes on with what it was told last, which is nothing where there is no file, until it can be told anew.
func newPlaces(log *slog.Logger, file string) (*places, error) {
	p := &places{log: log, file: file}
	err := provide(file, scarcity(0))
	if durable.Full(err) {
		if said, unread := os.ReadFile(file); unread == nil {
			p.scarce, _ = strconv.ParseFloat(strings.TrimSpace(string(said)), 64)
		}
		log.Warn("Envoy cannot be told how scarce its connections are, since the disk is full; it is tried again when that changes", "as_before", p.scarce, "err", err)
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("what Envoy is told about its connections: %w", err)
	}
	return p, nil
}

// take takes over how many percent are taken, and says whether to look again soon.
func (p *places) take(ctx context.Context, percent uint64) (soon bool) {
	if percent >= fewFrom && p.makeRoom != nil {
		n, err := p.makeRoom(ctx, percent)
		if n > 0 {
			p.log.Warn("few of the connections that the proxy may have are left: some are ended of who has most", "connections", n, "percent", percent)
		}
		if err != nil {
			p.log.Error("who has most of the connections that the proxy may have is not known", "err", err)
		}
	}
	scarce := min(max((float64(percent)-scarceFrom)/(scarceAt-scarceFrom), 0), 1)
	scarce = math.Round(100*max(scarce, p.scarce-easing)) / 100
	if scarce == p.scarce {
		return percent >= watchedFrom || scarce > 0
	}
	if err := p.tell(scarce); err != nil {
		p.log.Error("Envoy cannot be told how scarce its connections are; it is tried again", "err", err)
		return true
	}
	switch {
	case p.scarce == 0:
		p.log.Warn("most of the connections that the proxy may have are taken: those that rest get less time", "percent", percent)
	case scarce == 0:
		p.log.Info("the proxy has connections to spare again", "percent", percent)
	}
	p.scarce = scarce
	return true
}

func (p *places) tell(scarce float64) error {
	return replaceFile(p.file, scarcity(scarce))
}

func scarcity(part float64) []byte { return fmt.Appendf(nil, "%g\n", part) }
