package supervise

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pollEvery is how often a draining Envoy is asked for its connections.
const pollEvery = 200 * time.Millisecond

// openStats are the statistics of what is open, and of listeners that do not listen any more.
const openStats = "/stats?filter=downstream_(pre_)%3Fcx_active%24|%5Elistener_manager%5C.(listener_stopped|total_listeners_active)%24"

// drain has Envoy ask for the end of connections, and waits, at most DrainTime, until those it has have ended. It goes on taking new ones
// unless another process does.
func (s *Supervisor) drain(c *child) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTime)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if _, err := admin(ctx, client, http.MethodPost, s.cfg.Admin, "/drain_listeners?graceful"); err != nil {
		s.cfg.Log.Warn("Envoy cannot be drained", "err", err)
		return
	}
	s.cfg.Log.Info("Envoy drains", "at_most", s.cfg.DrainTime)
	began := time.Now()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	listens := true
	for active := 0; ; {
		if listens && s.cfg.Elsewhere != nil && s.cfg.Elsewhere() {
			_, err := admin(ctx, client, http.MethodPost, s.cfg.Admin, "/drain_listeners")
			listens = err != nil
			s.cfg.Log.Info("Envoy stops listening, since another one does", "err", err)
		}
		if time.Since(began) >= s.cfg.MinDrain {
			stats, err := admin(ctx, client, http.MethodGet, s.cfg.Admin, openStats)
			if err == nil {
				if active = connections(stats); active == 0 && (listens || stopped(stats)) {
					return
				}
			}
		}
		select {
		case <-tick.C:
		case <-c.done:
			return
		case <-ctx.Done():
			s.cfg.Log.Warn("the drain time is over; connections are cut", "connections", active)
			if s.cfg.OnCut != nil && active > 0 {
				s.cfg.OnCut(active)
			}
			return
		}
	}
}

// endSessions has Envoy close the listeners by which others come in where it has sessions of UDP, which it logs then. It would not at its end.
func (s *Supervisor) endSessions() {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.KillAfter)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	stats, err := admin(ctx, client, http.MethodGet, s.cfg.Admin, "/stats?filter=%5Eudp%5C.&usedonly&type=Gauges")
	if err == nil && sessions(stats) > 0 {
		_, err = admin(ctx, client, http.MethodPost, s.cfg.Admin, "/drain_listeners?inboundonly")
	}
	if err != nil {
		s.cfg.Log.Warn("sessions of UDP are not in the audit log, if there are any", "err", err)
	}
}

// sessions adds up the open ones.
func sessions(stats string) int {
	return sum(stats, func(name string) bool { return strings.HasSuffix(name, ".downstream_sess_active") })
}

// stopped says whether all listeners have stopped, as Envoy was told to: until then a worker that is busy goes on taking what is in its queue, and what it takes is
// not counted yet.
func stopped(stats string) bool {
	of := func(name string) int {
		return sum(stats, func(n string) bool { return n == "listener_manager."+name })
	}
	return of("listener_stopped") >= of("total_listeners_active")
}

// connections adds up the listeners' open connections, those too that have said nothing yet by which a listener could choose their filters (downstream_pre_cx_active), without those of the admin interface, of the page of
// statistics and of the agent's questions, which are not anybody's traffic, and without those from one of its listeners to another (envoy_internal), which are kept for the next
// of somebody's, and end with these where they carry any. The numbers of each worker are part of their listener's.
func connections(stats string) int {
	return sum(stats, func(name string) bool {
		return strings.HasPrefix(name, "listener.") && !strings.HasPrefix(name, "listener.admin.") && !strings.HasPrefix(name, "listener.questions.") &&
			!strings.HasPrefix(name, "listener.envoy_internal_") && !strings.Contains(name, ".worker_") && !strings.Contains(name, "prometheus_stats")
	})
}

// sum adds up the statistics that count, of Envoy's text of them.
func sum(stats string, counts func(name string) bool) (sum int) {
	lines := bufio.NewScanner(strings.NewReader(stats))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), ": ")
		if n, err := strconv.Atoi(value); err == nil && ok && counts(name) {
			sum += n
		}
	}
	return sum
}

// admin asks Envoy's admin interface and gives the body.
func admin(ctx context.Context, client *http.Client, method, address, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err := resp.Body.Close(); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return string(body), err
}
