package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// droppedStat counts the access log entries that Envoy threw away because the agent did not take them in time.
const droppedStat = "access_logs.grpc_access_log.logs_dropped"

const (
	dropsEvery = 10 * time.Second
	dropsSoon  = time.Second // while places are scarce
)

// drops turns what Envoy dropped into gap records, and what it turned away without an entry.
type drops struct {
	log     *slog.Logger
	admin   string
	gap     func(count uint64, reason string) error
	last    uint64
	total   atomic.Uint64 // over all Envoys
	turned  turnedAway    // datagrams
	refused turnedAway    // connections
	places  *places
}

// run looks every ten seconds until ctx ends, and every second while there are few places left for connections.
func (d *drops) run(ctx context.Context) {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	next := time.NewTimer(dropsEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			every := dropsEvery
			if d.look(ctx, client) {
				every = dropsSoon
			}
			next.Reset(every)
		}
	}
}

// look says whether to look again soon.
func (d *drops) look(ctx context.Context, client *http.Client) (soon bool) {
	now, err := readStats(ctx, client, d.admin, regexp.QuoteMeta(droppedStat)+"|"+regexp.QuoteMeta(placesStat)+"|"+turnedStats+"|"+refusedStats)
	if err != nil {
		return false // Envoy is restarting
	}
	if d.places != nil {
		soon = d.places.take(ctx, now[placesStat])
	}
	dropped, refused := now[droppedStat], map[string]uint64{}
	delete(now, droppedStat)
	delete(now, placesStat)
	maps.DeleteFunc(now, func(name string, n uint64) bool {
		is := strings.HasPrefix(name, "listener.") || strings.HasPrefix(name, "connection_limit.")
		if is {
			refused[name] = n
		}
		return is
	})
	if err := errors.Join(d.note(dropped), d.noteTurned(now), d.noteRefused(refused)); err != nil {
		d.log.Error("a gap in the audit log cannot be noted", "err", err)
	}
	return soon
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

// lostEntries says whether Envoy has thrown entries away since it was asked before. An Envoy that begins anew may have, too.
func (a *agent) lostEntries() func(context.Context) (bool, error) {
	var last uint64
	client := &http.Client{Timeout: listenedPatience, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) (bool, error) {
		now, err := readStat(ctx, client, a.cfg.admin(), droppedStat)
		if err != nil {
			return false, err
		}
		lost := now != last
		last = now
		return lost, nil
	}
}

// readStat asks Envoy for one number of its statistics, which is 0 where it has not counted yet.
func readStat(ctx context.Context, client *http.Client, admin, stat string) (uint64, error) {
	all, err := readStats(ctx, client, admin, regexp.QuoteMeta(stat))
	return all[stat], err
}

// readStats asks Envoy for those numbers of its statistics whose names match a regular expression.
func readStats(ctx context.Context, client *http.Client, admin, names string) (map[string]uint64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/stats?filter="+url.QueryEscape("^("+names+")$"), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return parseStats(resp.Body)
}

// parseStats reads Envoy's text. A counter that is not there has not counted yet.
func parseStats(in io.Reader) (map[string]uint64, error) {
	out := map[string]uint64{}
	lines := bufio.NewScanner(io.LimitReader(in, 1<<20))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok {
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[name] = n
		}
	}
	return out, lines.Err()
}

// logFlush is a little more than Envoy's default for CommonGrpcAccessLogConfig.buffer_flush_interval, one second.
const logFlush = 1200 * time.Millisecond

// noteCrash tells of what Envoy had buffered when it died. How much that was nobody knows; the gap says at least one.
func (a *agent) noteCrash() {
	a.note(1, "Envoy ended unexpectedly: access log entries of its last second may be missing, and those of the connections that it had")
}

// noteCut tells of connections that were open when Envoy was ended: they would have been logged at their end.
func (a *agent) noteCut(connections int) {
	a.note(uint64(connections), "connections were still open when the proxy was ended")
}

func (a *agent) note(count uint64, reason string) {
	if err := a.spool.AppendGap(count, reason); err != nil {
		a.cfg.Log.Error("a gap in the audit log cannot be noted", "err", err)
	}
}

// turnedStats are the counters of datagrams that a gateway took and led nowhere: of a share that nothing takes, and of Services that have as many
// sessions as they may, or nobody to send to. No session begins, so Envoy has no entry of it.
const turnedStats = `udp\..+\.downstream_sess_no_route|cluster\.outbound\|[0-9]+\|udp\..*\.upstream_cx_(overflow|none_healthy)`

// refusedStats are the counters of connections that a listener closed as they came: of more than the proxy may have, and while its heap is full or what happens
// cannot be recorded; or a chain for HTTP/3, of more than it takes. They get to no filter that logs, so Envoy has no entry of them.
const refusedStats = `listener\..+\.downstream_(global_cx_overflow|cx_overload_reject)|connection_limit\.http3\.limited_connections`

// turnedAway knows how far such counters were.
type turnedAway map[string]uint64

// since gives how many more there are by now. A counter that is lower than before is a new listener's or Envoy's; one that is gone comes
// again at 0.
func (t turnedAway) since(now map[string]uint64) (more uint64) {
	for name, n := range now {
		if last := t[name]; last <= n {
			n -= last
		}
		more += n
	}
	return more
}

// noteTurned has a gap for those since the last time. What the spool cannot write now it tells later.
func (d *drops) noteTurned(now map[string]uint64) error {
	return d.noteMore(&d.turned, now, "datagrams were turned away", "what their route leads to takes none, or has as many sessions as it may")
}

// noteRefused is the same for connections.
func (d *drops) noteRefused(now map[string]uint64) error {
	return d.noteMore(&d.refused, now, "connections were refused as they came", "the proxy has as many as it may, has too little memory, or could not record them")
}

func (d *drops) noteMore(last *turnedAway, now map[string]uint64, what, why string) error {
	n := last.since(now)
	*last = now
	if n == 0 {
		return nil
	}
	d.log.Warn(what, "count", n)
	return d.gap(n, what+": "+why)
}
