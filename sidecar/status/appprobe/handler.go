package appprobe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/xds/wire"
)

// maxHooks bounds the hooks that everybody may call and that run at the same time; others wait for their turn. Probes have none: of each path one runs (flights).
const maxHooks = 16

// Addresses that the pod's redirection knows as the proxy's own towards the application: connections from them are
// not caught again.
var (
	source4 = netip.MustParseAddr(wire.PassthroughSource)
	source6 = netip.MustParseAddr(wire.PassthroughSource6)
)

// handler performs probes. It keeps no connections.
type handler struct {
	log     *slog.Logger
	probes  Probes
	pod     netip.Addr
	flights flights
	hooks   chan struct{} // who has a turn
}

// Handler serves the probes' paths by asking the pod at that address, which is where a kubelet would have asked; an
// invalid address stands for 127.0.0.1. The answer is the application's status for httpGet, else 200 or 503; a hook that fails has none: its connection ends.
func Handler(probes Probes, pod netip.Addr, log *slog.Logger) http.Handler {
	if !pod.IsValid() {
		pod = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return &handler{log: log, probes: probes, pod: pod.Unmap(), flights: flights{of: map[string]*flight{}}, hooks: make(chan struct{}, maxHooks)}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, LifecyclePrefix) {
		h.serveHook(w, r)
		return
	}
	probe, listed := h.probes[r.URL.Path]
	if !listed {
		http.Error(w, "no such probe", http.StatusNotFound)
		return
	}
	status, err := h.fly(r.Context(), r.URL.Path, within(probe), func(ctx context.Context) (int, error) { return h.perform(ctx, probe) })
	if err != nil {
		h.log.Debug("a probe of the application failed", "path", r.URL.Path, "err", err)
		http.Error(w, "the application does not answer as it should", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(status)
}

// fly performs a probe, or has the answer of who does. One that fails and began before it was asked for here says nothing: it had less time. The next one, whoever begins it, counts.
func (h *handler) fly(ctx context.Context, path string, within time.Duration, perform func(context.Context) (int, error)) (int, error) {
	status, began, err := h.flights.do(ctx, path, within, perform)
	if !began && (err != nil || !succeeds(status)) && ctx.Err() == nil {
		status, _, err = h.flights.do(ctx, path, within, perform)
	}
	return status, err
}

func within(p Probe) time.Duration { return time.Duration(max(p.TimeoutSeconds, 1)) * time.Second }

func succeeds(status int) bool { return status >= http.StatusOK && status < http.StatusBadRequest }

// Ask performs one probe at an address, and says why it fails.
func Ask(ctx context.Context, p Probe, at netip.Addr) error {
	status, err := (&handler{pod: at.Unmap()}).perform(ctx, p)
	if err == nil && !succeeds(status) {
		err = fmt.Errorf("the application answers with status %d", status)
	}
	return err
}

func (h *handler) perform(ctx context.Context, p Probe) (int, error) {
	switch {
	case p.HTTPGet != nil:
		return h.get(ctx, p.HTTPGet)
	case p.TCPSocket != nil:
		conn, err := h.dial(ctx, p.TCPSocket.Port)
		if err != nil {
			return 0, err
		}
		return http.StatusOK, conn.Close()
	case p.GRPC != nil:
		return http.StatusOK, h.health(ctx, p.GRPC)
	}
	return 0, fmt.Errorf("a probe without an action")
}

// dial connects to a port of the pod.
func (h *handler) dial(ctx context.Context, port uint16) (net.Conn, error) {
	source := source4
	if h.pod.Is6() {
		source = source6
	}
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
	conn, err := dialer.DialContext(ctx, "tcp", h.address(port))
	if source == source6 && errors.Is(err, syscall.EADDRNOTAVAIL) { // who adds it is who has the rest caught, too: the init step
		dialer.LocalAddr = nil
		conn, err = dialer.DialContext(ctx, "tcp", h.address(port))
	}
	return conn, err
}

func (h *handler) address(port uint16) string {
	return net.JoinHostPort(h.pod.String(), strconv.Itoa(int(port)))
}
