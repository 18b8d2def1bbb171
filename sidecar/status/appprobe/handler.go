package appprobe

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/xds/wire"
)

// maxAtOnce bounds the probes that run at the same time; others wait for their turn within their timeout.
const maxAtOnce = 16

// Addresses that the pod's redirection knows as the proxy's own towards the application: connections from them are
// not caught again.
var (
	source4 = netip.MustParseAddr(wire.PassthroughSource)
	source6 = netip.MustParseAddr(wire.PassthroughSource6)
)

// handler performs probes. It keeps no connections.
type handler struct {
	log    *slog.Logger
	probes Probes
	pod    netip.Addr
	turns  chan struct{}
}

// Handler serves the probes' paths by asking the pod at that address, which is where a kubelet would have asked; an
// invalid address stands for 127.0.0.1. The answer is the application's status for httpGet, else 200 or 503.
func Handler(probes Probes, pod netip.Addr, log *slog.Logger) http.Handler {
	if !pod.IsValid() {
		pod = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return &handler{log: log, probes: probes, pod: pod.Unmap(), turns: make(chan struct{}, maxAtOnce)}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	probe, listed := h.probes[r.URL.Path]
	if !listed {
		http.Error(w, "no such probe", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(max(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		http.Error(w, "too many probes at once", http.StatusServiceUnavailable)
		return
	}
	status, err := h.perform(ctx, probe)
	if err != nil {
		h.log.Debug("a probe of the application failed", "path", r.URL.Path, "err", err)
		http.Error(w, "the application does not answer as it should", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(status)
}

// Ask performs one probe at an address, and says why it fails.
func Ask(ctx context.Context, p Probe, at netip.Addr) error {
	status, err := (&handler{pod: at.Unmap()}).perform(ctx, p)
	if err == nil && (status < http.StatusOK || status >= http.StatusBadRequest) {
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
	return dialer.DialContext(ctx, "tcp", h.address(port))
}

func (h *handler) address(port uint16) string {
	return net.JoinHostPort(h.pod.String(), strconv.Itoa(int(port)))
}
