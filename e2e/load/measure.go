package load

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/sallyport/sallyport/e2e/world"
)

// Options say what is measured.
type Options struct {
	Sallyport string        // the built program
	Shape     string        // what there is many of: one of Shapes; "" for ServiceEntries
	Entries   int           // how many: of ServiceEntries, with an HTTP and a TLS port each
	Private   int           // how many percent of them only their own namespace sees
	Streams   int           // sidecars, or the Gateway's pods; there is one egress gateway besides
	Crowd     int           // sidecars that connect at once to a second controller; 0 for none
	Changes   int           // files that are added, changed and removed, in turn
	Plain     bool          // nobody reads compressed messages, as no client but our agents does
	Rest      time.Duration // how long nothing happens before memory is looked at once more, for what fetches on use; 0: it is not
	Profiles  string        // directory for the controller's profiles; "" for none
	Progress  io.Writer
}

// Figures are what one size of mesh was found to cost.
type Figures struct {
	Shape   string `json:"shape"`
	Entries int    `json:"entries"`
	Streams int    `json:"streams"`

	Start time.Duration `json:"startNs"` // until ready, with the directory full

	SyncCPU   time.Duration `json:"syncCPUNs"`  // of the controller, for the first answers to all
	SyncTime  time.Duration `json:"syncTimeNs"` // until the last had them
	SyncBytes int64         `json:"syncBytes"`  // to all
	SyncMost  int64         `json:"syncMost"`   // to the sidecar that got most

	Bytes        map[string]int64 `json:"bytesPerChange"`  // to the sidecar that got most, by what was done
	GatewayBytes int64            `json:"gatewayBytes"`    // to the gateway, at most
	Told         int              `json:"told,omitempty"`  // how many were told of a change, at most, of those that are about some proxies only,
	Meant        int              `json:"meant,omitempty"` // and how many it was about
	ChangeCPU    time.Duration    `json:"changeCPUNs"`     // of the controller, for one change
	P50          time.Duration    `json:"p50Ns"`           // from writing a file until the last sidecar has it
	P99          time.Duration    `json:"p99Ns"`

	Resident int64 `json:"residentBytes"` // after the changes
	Peak     int64 `json:"peakBytes"`
	Rested   int64 `json:"restedBytes,omitempty"` // when nothing has happened for Options.Rest

	Crowd         int           `json:"crowd"`
	CrowdSync     time.Duration `json:"crowdSyncNs"`
	CrowdCPU      time.Duration `json:"crowdCPUNs"`
	CrowdResident int64         `json:"crowdResidentBytes"`
	CrowdPeak     int64         `json:"crowdPeakBytes"`
}

// Measure runs everything for one size of mesh.
func Measure(ctx context.Context, o Options) (f Figures, err error) {
	s, err := shapeOf(o.Shape)
	if err != nil {
		return f, err
	}
	run, err := world.NewRun()
	if err != nil {
		return f, err
	}
	defer func() { err = cmp.Or(err, run.Close()) }()
	m := &measurement{Options: o, shape: s, run: run, figures: Figures{Shape: s.name, Entries: o.Entries, Streams: o.Streams, Crowd: o.Crowd, Bytes: map[string]int64{}}}
	if m.mesh, err = writeMesh(filepath.Join(run.Dir, "config"), s, o); err != nil {
		return f, err
	}
	if err := m.first(ctx); err != nil {
		return m.figures, err
	}
	if o.Crowd > 0 {
		err = m.crowd(ctx)
	}
	return m.figures, err
}

type measurement struct {
	Options
	shape      shape
	run        *world.Run
	mesh       mesh
	controller *controller
	fleet      *fleet
	figures    Figures
}

func (m *measurement) say(format string, args ...any) {
	if m.Progress != nil {
		fmt.Fprintf(m.Progress, format+"\n", args...)
	}
}

// first starts a controller and measures everything but the crowd.
func (m *measurement) first(ctx context.Context) error {
	if err := m.connect(ctx, m.Streams); err != nil {
		return err
	}
	defer func() { m.fleet.close() }()
	m.figures.Start = m.controller.ready
	if err := m.profile(ctx, "heap?gc=1", "heap-synced"); err != nil {
		return err
	}
	if err := m.profiled(ctx, "cpu-changes", 5*time.Second, func() error { return m.changes(ctx) }); err != nil {
		return err
	}
	var err error
	if m.figures.Resident, err = m.controller.process.Resident(); err != nil {
		return err
	}
	if m.figures.Peak, err = m.controller.peak(); err != nil {
		return err
	}
	if err := m.rest(ctx); err != nil {
		return err
	}
	m.fleet.close()
	return m.controller.stop()
}

// rest lets the controller give back what the first answers took, as it does once a minute at most.
func (m *measurement) rest(ctx context.Context) (err error) {
	if !m.shape.rests || m.Rest == 0 {
		return nil
	}
	select {
	case <-time.After(m.Rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.figures.Rested, err = m.controller.process.Resident(); err != nil {
		return err
	}
	m.say("%d %s: %.0f MiB resident after the changes, %.0f %s later", m.Entries, m.shape.noun, mebibytes(m.figures.Resident), mebibytes(m.figures.Rested), m.Rest)
	return m.profile(ctx, "heap?gc=1", "heap-rested")
}

// connect starts a controller and measures the first answers.
func (m *measurement) connect(ctx context.Context, streams int) (err error) {
	if m.controller, err = startController(ctx, m.run, m.Sallyport, m.mesh); err != nil {
		return err
	}
	m.say("%d %s: ready after %s", m.Entries, m.shape.noun, m.controller.ready.Round(time.Millisecond))
	cpu, err := m.controller.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	err = m.profiled(ctx, fmt.Sprintf("cpu-sync-%d", streams), 3*time.Second, func() error {
		m.fleet, err = assemble(ctx, m.controller.xds, streams, m.shape, m.Plain)
		m.figures.SyncTime = time.Since(began)
		return err
	})
	if err != nil {
		return err
	}
	after, err := m.controller.cpu()
	m.figures.SyncCPU = after - cpu
	m.figures.SyncBytes, m.figures.SyncMost = m.fleet.received()
	m.say("%d %s: %d streams have everything after %s, %s of CPU, %.1f MiB", m.Entries, m.shape.noun, streams,
		m.figures.SyncTime.Round(time.Millisecond), m.figures.SyncCPU, float64(m.figures.SyncBytes)/(1<<20))
	return err
}

// crowd lets many come back to a controller at once.
func (m *measurement) crowd(ctx context.Context) (err error) {
	small := m.figures
	if err := m.connect(ctx, m.Crowd); err != nil {
		return err
	}
	defer func() { m.fleet.close() }()
	big := m.figures
	m.figures = small
	m.figures.CrowdSync, m.figures.CrowdCPU = big.SyncTime, big.SyncCPU
	if err := m.change(ctx, m.shape.steps(m.mesh, 0)[0], nil); err != nil {
		return err
	}
	if err := m.profile(ctx, "heap?gc=1", "heap-crowd"); err != nil {
		return err
	}
	if m.figures.CrowdResident, err = m.controller.process.Resident(); err != nil {
		return err
	}
	if m.figures.CrowdPeak, err = m.controller.peak(); err != nil {
		return err
	}
	m.fleet.close()
	return m.controller.stop()
}

// step is one change of one file.
type step struct {
	kind string
	host string // what proxies hear of when they have it
	do   func() error
	whom func(*core.Node) bool // whom it is about; nil for all
}

// entrySteps are the changes of one round: an entry comes, is changed in what sidecars see, and goes. It is the root namespace's, since
// only from there an entry that writes its address down reaches all sidecars.
func (m mesh) entrySteps(round int) []step {
	e := entry{name: fmt.Sprintf("new-%d", round), namespace: gatewayNamespace, host: fmt.Sprintf("new-%d.load.example.org", round)}
	changed := e
	changed.address = "203.0.113.7"
	return []step{
		{"added", e.host, func() error { return m.put(e) }, nil}, {"changed", e.host, func() error { return m.put(changed) }, nil}, {"removed", e.host, func() error { return m.remove(e) }, nil},
	}
}

// changes makes them one by one; of entries half of them under each traffic policy.
func (m *measurement) changes(ctx context.Context) error {
	var took []time.Duration
	var cpu time.Duration
	rounds := (m.Changes + 2) / 3
	for round := range rounds {
		if m.shape.closes && round == rounds/2 {
			if err := m.close(ctx); err != nil {
				return err
			}
		}
		before, err := m.controller.cpu()
		if err != nil {
			return err
		}
		for _, s := range m.shape.steps(m.mesh, round) {
			if err := m.change(ctx, s, &took); err != nil {
				return err
			}
		}
		after, err := m.controller.cpu()
		if err != nil {
			return err
		}
		cpu += after - before
	}
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	m.figures.ChangeCPU = cpu / time.Duration(len(took))
	m.figures.P50, m.figures.P99 = took[len(took)/2], took[(len(took)*99-1)/100]
	m.say("%d %s: %d changes, p50 %s, p99 %s, %s of CPU each, %v bytes", m.Entries, m.shape.noun, len(took),
		m.figures.P50.Round(time.Millisecond), m.figures.P99.Round(time.Millisecond), m.figures.ChangeCPU.Round(10*time.Microsecond), m.figures.Bytes)
	return nil
}

// change makes one change and waits until everybody has it.
func (m *measurement) change(ctx context.Context, s step, took *[]time.Duration) error {
	m.fleet.takeBytes()
	m.fleet.expect(s.host, s.whom)
	began := time.Now()
	if err := s.do(); err != nil {
		return err
	}
	last, err := m.fleet.settle(ctx)
	if err != nil {
		return err
	}
	if took != nil {
		*took = append(*took, last.Sub(began))
		if s.whom != nil {
			m.figures.Told, m.figures.Meant = max(m.figures.Told, m.fleet.told()), len(m.fleet.meant)
		}
		sidecar, gateway := m.fleet.takeBytes()
		m.figures.Bytes[s.kind] = max(m.figures.Bytes[s.kind], sidecar)
		m.figures.GatewayBytes = max(m.figures.GatewayBytes, gateway)
	}
	return nil
}

// close makes the mesh REGISTRY_ONLY and waits until that is everywhere: a change that comes after it is.
func (m *measurement) close(ctx context.Context) error {
	if err := m.mesh.setPolicy("REGISTRY_ONLY"); err != nil {
		return err
	}
	return m.fleet.resettled(ctx)
}
