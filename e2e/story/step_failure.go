package story

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// controllerKilled: the controller dies as in a crash; connections, old and new, do not notice.
func controllerKilled(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if _, err := s.policy(ctx, "REGISTRY_ONLY"); err != nil {
		return err
	}
	open, err := s.openStream(ctx, "https", externalHost)
	if err != nil {
		return err
	}
	defer open.close()
	traffic := s.startProbe(ctx, externalHost)
	defer traffic.stop()
	const some = 10 // requests
	before, err := traffic.more(ctx, some)
	if err != nil {
		return err
	}
	if err := s.Controller.kill(ctx); err != nil {
		return err
	}
	// What waits for the controller does so each time; a machine that has much else to do for a moment is not slow for ever.
	if err := world.Within(ctx, 2*time.Minute, func() error {
		after, err := traffic.more(ctx, some)
		if err == nil && after > 5*before+3*time.Second {
			err = fmt.Errorf("%d requests take %s, and took %s before", some, after, before)
		}
		return err
	}); err != nil {
		return fmt.Errorf("something waits for the controller: %w", err)
	}
	requests, err := traffic.finish()
	if err != nil {
		return err
	}
	if err := open.flows(ctx); err != nil {
		return err
	}
	s.show("controller dead: %d requests on new connections, none failed; the open connection went on", requests)
	if err := s.stillClosed(ctx); err != nil {
		return err
	}
	return s.recordWhileDead(ctx, "while the controller was dead")
}

// fromDisk: with the controller dead, agents and Envoys are killed. Without its gateway the app gets nothing out;
// started again, both come up from what is on their disks.
func fromDisk(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if _, err := s.policy(ctx, "REGISTRY_ONLY"); err != nil {
		return err
	}
	if err := s.Controller.kill(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.App.kill(ctx), s.Gateway.kill(ctx)); err != nil {
		return err
	}
	for _, scheme := range []string{"http", "https"} {
		reply, err := s.get(ctx, s.url(scheme, externalHost, "/"))
		if err != nil {
			return err
		}
		if reply.OK() {
			return fmt.Errorf("without its sidecar the pod reaches the outside: %s", reply)
		}
	}
	s.show("sidecar and gateway dead: nothing gets out")
	began := time.Now()
	if err := s.Gateway.up(ctx); err != nil {
		return err
	}
	if err := s.App.up(ctx); err != nil {
		return err
	}
	s.show("controller dead, both started again: ready after %s", time.Since(began).Round(10*time.Millisecond))
	if err := s.stillOpen(ctx); err != nil {
		return err
	}
	if err := s.stillClosed(ctx); err != nil {
		return err
	}
	return s.recordWhileDead(ctx, "after the restart from disk, the controller still dead")
}

// stillClosed: what is not registered does not open because the controller is dead.
func (s *Scene) stillClosed(ctx context.Context) error {
	if s.Namespaced() {
		if err := s.refusedName(ctx); err != nil {
			return err
		}
	}
	for _, scheme := range []string{"http", "https"} {
		reply, err := s.get(ctx, s.url(scheme, unregisteredHost, "/"), s.known()...)
		if err != nil {
			return err
		}
		if reply.OK() {
			return fmt.Errorf("the unregistered host opened: %s", reply)
		}
	}
	s.show("the unregistered host stays closed, and its name unknown")
	return nil
}

// recordWhileDead makes a request whose record has to wait on disk for the controller.
func (s *Scene) recordWhileDead(ctx context.Context, when string) error {
	path, err := s.recordRequest(ctx, when)
	if err != nil || !s.Namespaced() {
		return err
	}
	return s.spooled(ctx, path)
}

// recordRequest makes a request that the audit log must have in the end.
func (s *Scene) recordRequest(ctx context.Context, when string) (path string, err error) {
	path = "/" + token()
	reply, err := s.get(ctx, s.url("http", externalHost, path))
	if err == nil {
		err = reply.must()
	}
	if err != nil {
		return "", err
	}
	s.expect(want{
		what: "the request " + when, host: externalHost, urlPath: path, status: 200,
		verdict: record.Allowed, path: record.PathGateway, reporter: record.ReporterGateway,
	})
	return path, nil
}

// spooled waits until the gateway's agent has the record of a request on its disk. Until then it is in Envoy's memory,
// and would go with a kill -9 of Envoy, as the gap record for it says.
func (s *Scene) spooled(ctx context.Context, path string) error {
	return world.Within(ctx, time.Minute, func() error {
		segments, err := filepath.Glob(filepath.Join(s.Gateway.RunDir(), "spool", "*"))
		if err != nil {
			return err
		}
		for _, segment := range segments {
			content, err := os.ReadFile(segment)
			if err == nil && bytes.Contains(content, []byte(path)) {
				return nil
			}
		}
		return fmt.Errorf("no record of %s in the gateway's spool", path)
	})
}

// auditHoldsAll: once the controller is back, the log has every record that the steps expected, also those made while
// it was dead.
func auditHoldsAll(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if len(s.wants) == 0 { // run alone
		if _, err := s.recordRequest(ctx, "of this step"); err != nil {
			return err
		}
	}
	for _, w := range s.wants {
		if _, err := s.audited(ctx, w); err != nil {
			return err
		}
	}
	s.show("audit query -o json: all %d records that the steps expect", len(s.wants))
	if err := s.exactlyOnce(ctx); err != nil {
		return err
	}
	table, err := s.sallyport(ctx, "audit", "query", "--data", s.dataDir(), "--since", "1h", "--limit", "100000")
	if err != nil {
		return err
	}
	for _, w := range s.wants {
		if !strings.Contains(string(table), w.host) {
			return fmt.Errorf("the table that `audit query` prints has no line for %s:\n%s", w.host, table)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	s.show("audit query: a table of %d lines", len(lines))
	for _, line := range lines[:min(4, len(lines))] {
		s.show("  %s", line)
	}
	return nil
}

// exactlyOnce: no record is in the log twice, though agents send again what was not acknowledged.
func (s *Scene) exactlyOnce(ctx context.Context) error {
	records, err := s.auditRecords(ctx)
	if err != nil {
		return err
	}
	type identity struct {
		proxy      string
		epoch, seq uint64
	}
	seen := map[identity]bool{}
	for _, r := range records {
		id := identity{r.Proxy, r.Epoch, r.Seq}
		if seen[id] {
			return fmt.Errorf("record %+v is in the log twice", id)
		}
		seen[id] = true
		if r.Class == record.Gap {
			return fmt.Errorf("%d records of %s were lost: %s", r.Count, r.Proxy, r.Reason)
		}
	}
	s.show("%d records, none twice, none lost", len(records))
	return nil
}

// cleanShutdown: SIGTERM ends `sallyport up`, and nothing of it is left.
func cleanShutdown(ctx context.Context, s *Scene) error {
	process := s.Up.process
	children, err := world.Descendants(process.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	s.Up.process = nil
	if err := process.Stop(2 * time.Minute); err != nil {
		return err
	}
	if err := process.ExitedCleanly(); err != nil {
		return err
	}
	if err := world.Within(ctx, time.Minute, func() error { // what the kernel ends with it is gone a moment later
		for _, child := range children {
			if child.Exists() {
				return fmt.Errorf("%s outlived `sallyport up`", child)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	s.show("SIGTERM: exit status 0 after %s, its %d processes are gone", time.Since(began).Round(10*time.Millisecond), len(children)+1)
	return nil
}
