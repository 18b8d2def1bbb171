package agent

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/sidecar/tunnels"
	"github.com/sallyport/sallyport/sidecar/tunnels/ender"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/wire"
)

// openTunnels watches what is open: the tunnels of an egress gateway, or a forward proxy, what leaves elsewhere, and requests that are under way. A router that is neither has nothing to
// watch.
func (a *agent) openTunnels() error {
	a.cfg.Proxy.Questions = a.cfg.path("questions.sock")
	asker := tunnels.NewAsker(a.cfg.Proxy.Questions)
	a.closers = append(a.closers, func() error { asker.Close(); return nil })
	cfg := tunnels.Config{
		Log: a.cfg.Log, Most: int(a.cfg.Proxy.MaxConnections), MostRequests: max(int(a.cfg.Proxy.MaxConnections), mostRequests),
		Ask: asker.Ask, Kernel: tunnels.Own{},
	}
	cfg.Ender, a.cfg.Proxy.EndsConnections = a.whoEnds()
	switch {
	case a.pods != nil:
		cfg.Kernel, cfg.Ask = a.pods.Kernel(), asker.AskAtNode
		cfg.Whose = func(at netip.Addr) string {
			w, _ := a.pods.Whose(at)
			return w.Principal
		}
	case a.cfg.Proxy.Role == bootstrap.Sidecar:
		cfg.Ask = asker.AskAtPod
	case a.cfg.Proxy.Role == bootstrap.Waypoint:
		cfg.Ask = asker.AskAtWaypoint
	}
	if a.alone() {
		cfg.Half = a.halfClosed
	}
	a.tunnels = tunnels.New(cfg)
	return nil
}

// alone says whether the proxy serves nobody's pod: what it has with servers it has for clients that share its places.
func (a *agent) alone() bool { return a.router() || a.cfg.Proxy.Role == bootstrap.Waypoint }

// halfClosed gives what Envoy itself has half closed with servers (tunnels.Config).
func (a *agent) halfClosed(quiet time.Duration, each func(sockdiag.Activity)) error {
	var list []sockdiag.Activity
	if err := sockdiag.HalfClosed(func(c sockdiag.Activity) {
		if c.Quiet >= quiet {
			list = append(list, c)
		}
	}); err != nil {
		return err
	}
	envoy := ender.Child{PID: func() int { return a.envoy.PID() }}
	for _, c := range list {
		holds, err := envoy.Holds(c.Connection)
		if err != nil {
			return err
		}
		if holds {
			each(c)
		}
	}
	return nil
}

func (a *agent) router() bool { return a.cfg.Proxy.Role == bootstrap.Router }

// toldOf reads what Envoy tells of requests.
func (a *agent) toldOf() func(said func(header string) string) envoylog.Tunnel {
	if a.router() {
		return toldAtExit
	}
	return toldLeaving
}

func toldAtExit(said func(header string) string) envoylog.Tunnel {
	return envoylog.UnderWay(said(wire.HeaderUnderWay), said(wire.HeaderPeer), said(wire.HeaderFrom), said(wire.HeaderBegan), said(wire.HeaderKind))
}

func toldLeaving(said func(header string) string) envoylog.Tunnel {
	return envoylog.Leaving(said(wire.HeaderUnderWay), said(wire.HeaderPeer), said(wire.HeaderFrom), said(wire.HeaderBegan), said(ondemand.TableHeader))
}

// mostRequests is how many requests may be under way at least, however few connections there may be: many share one, and each takes some 20 KB of the agent.
const mostRequests = 8192

// whoEnds is who ends connections: a process of its own, where there is one, else the agent itself, by its rights, or, without any, as who started Envoy; nil
// is nobody. What is said of it the controller reads (wire.EndsConnectionsMetadata).
func (a *agent) whoEnds() (tunnels.Ender, string) {
	if a.pods != nil {
		return a.pods.Ender(), wire.EndsAll
	}
	if a.cfg.Ender != "" {
		return ender.NewClient(a.cfg.Ender), wire.EndsAll
	}
	right := sockdiag.MayEnd()
	if right == nil {
		return itself{}, wire.EndsAll
	}
	traces, err := ender.MayEnd()
	if err != nil {
		a.cfg.Log.Info("nobody ends open connections here: what a rule allowed goes on after its end until either side ends it (--ender)", "err", errors.Join(right, err))
		return nil, wire.EndsNone
	}
	child := &ender.Child{PID: func() int { return a.envoy.PID() }, Untraced: a.untraced}
	if traces {
		return child, wire.EndsTraced
	}
	return child, wire.EndsAll
}

// Why Envoy is not traced.
var (
	errSettingsUnknown = errors.New("the mesh's settings have not come yet, which say whether Envoy may be traced (ptrace) to end a connection")
	errNeverTrace      = errors.New("the mesh's settings let no agent trace its Envoy (sallyport.traceProxies: false)")
)

// untraced says why Envoy may not be traced, as the controller said last.
func (a *agent) untraced() error {
	if why := a.tracing.Load(); why != nil {
		return *why
	}
	return errSettingsUnknown
}

// useDefaults takes what the controller says of a proxy that is not about names.
func (a *agent) useDefaults(d name.Defaults) {
	a.full.want(d.DenyUnrecorded)
	var why error
	if d.NeverTrace {
		why = errNeverTrace
	}
	a.tracing.Store(&why)
}

// itself ends connections with the agent's own rights.
type itself struct{}

func (itself) End(_ context.Context, of sockdiag.Connection, beyond ...sockdiag.Connection) error {
	return sockdiag.End(of, beyond...)
}
func (itself) Can(context.Context) error { return sockdiag.MayEnd() }

// taken has open tunnels asked about that a change may mean.
func (a *agent) taken(typeURL string, changed []*discoveryv3.Resource, removed []string) {
	c := tunnels.Change{Type: typeURL}
	for _, r := range changed {
		c.Names, c.Bodies = append(c.Names, r.GetName()), append(c.Bodies, r.GetResource().GetValue())
	}
	c.Names = append(c.Names, removed...)
	if a.router() {
		a.tunnels.Listens(c)
	} else {
		c = c.OfLeaving()
	}
	a.tunnels.Changed(c)
}

// reader is a reader for a stream of Envoy's log.
func (a *agent) reader() LogReader {
	reader := a.cfg.Records()
	if of, knows := reader.(tunnelReader); knows {
		reader = tunnelLog{of, a.tunnels}
	}
	if a.fetches() {
		return useLog{LogReader: reader, used: a.relay.Used, exit: a.router()}
	}
	return reader
}

// tunnelLog is a reader of Envoy's log that tells the table of tunnels what it reads of them, and says in their records why they were ended.
type tunnelLog struct {
	tunnelReader
	open *tunnels.Table
}

// tunnelReader is a reader that knows of tunnels (envoylog.Reader).
type tunnelReader interface {
	LogReader
	Begun() []envoylog.Tunnel
	Spoke() []netip.AddrPort
	Cut() []envoylog.Broken
}

// Records implements LogReader.
func (l tunnelLog) Records(message string) ([]record.Record, error) {
	records, err := l.tunnelReader.Records(message)
	for _, t := range l.Begun() {
		l.open.Begin(t)
	}
	for _, client := range l.Spoke() {
		l.open.Spoke(client)
	}
	l.open.Cut(l.Cut())
	for i := range records {
		r, why := &records[i], ""
		l.open.Saw(r)
		if r.Class == record.Network || r.Status == http.StatusSwitchingProtocols {
			why = l.open.Done(r.Source, r.Time)
		}
		if why = cmp.Or(why, l.open.Crowded(r.Source)); why != "" {
			r.Reason = strings.TrimPrefix(r.Reason+"; "+envoylog.EndedReason+why, "; ")
		}
	}
	return records, err
}
