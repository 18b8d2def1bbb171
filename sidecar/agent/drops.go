package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// droppedStat counts the access log entries that Envoy threw away because the agent did not take them in time.
const droppedStat = "access_logs.grpc_access_log.logs_dropped"

const dropsEvery = 10 * time.Second

// drops turns what Envoy dropped into gap records.
type drops struct {
	log   *slog.Logger
	admin string
	gap   func(count uint64, reason string) error
	last  uint64
	total atomic.Uint64 // over all Envoys
}

// run looks every ten seconds until ctx ends.
func (d *drops) run(ctx context.Context) {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(dropsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.look(ctx, client)
		}
	}
}

func (d *drops) look(ctx context.Context, client *http.Client) {
	now, err := d.read(ctx, client)
	if err != nil {
		return // Envoy is restarting
	}
	if err := d.note(now); err != nil {
		d.log.Error("a gap in the audit log cannot be noted", "err", err)
	}
}

// note takes the counter's present value. One lower than before is a new Envoy's.
func (d *drops) note(now uint64) error {
	if now < d.last {
		d.last = 0
	}
	lost := now - d.last
	d.last = now
	d.total.Add(lost)
	if lost == 0 {
		return nil
	}
	d.log.Warn("Envoy dropped access log entries", "count", lost)
	return d.gap(lost, "Envoy dropped access log entries that the agent did not take in time")
}

func (d *drops) read(ctx context.Context, client *http.Client) (uint64, error) {
	return readStat(ctx, client, d.admin, droppedStat)
}

// readStat asks Envoy for one number of its statistics.
func readStat(ctx context.Context, client *http.Client, admin, stat string) (uint64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/stats?filter=^"+stat+"%24", nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	return parseStat(resp.Body, stat)
}

// parseStat finds one counter in Envoy's text. One that is not there has not counted yet.
func parseStat(in io.Reader, stat string) (uint64, error) {
	lines := bufio.NewScanner(io.LimitReader(in, 1<<20))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok && name == stat {
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", stat, err)
			}
			return n, nil
		}
	}
	return 0, lines.Err()
}
