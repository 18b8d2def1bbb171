package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/sallyport/sallyport/xds/wire"
)

// makeRoom ends connections of who has most of those with the proxy's ports.
func (a *agent) makeRoom(ctx context.Context, percent uint64) (ended int, err error) {
	ports, err := a.sharedPorts(ctx)
	if err != nil {
		return 0, err
	}
	return a.tunnels.MakeRoom(ctx, percent, func(port uint16) bool { return ports[port] })
}

// sharedPorts are those at which the proxy takes connections of several clients. What leaves a sidecar's pod is the pod's own, and other ports there are its app's; at a node the pods share what
// leaves, too.
func (a *agent) sharedPorts(ctx context.Context) (map[uint16]bool, error) {
	switch {
	case a.pods != nil:
		return map[uint16]bool{wire.OutboundPort: true, wire.InboundPort: true, wire.HBONEPort: true}, nil
	case a.cfg.forApps():
		return map[uint16]bool{wire.InboundPort: true, wire.HBONEPort: true}, nil
	}
	return listenedTo(ctx, a.cfg.admin())
}

// listenedPatience is how long Envoy may take to say it.
const listenedPatience = 5 * time.Second

// listenedTo are the ports of Envoy's listeners for TCP.
func listenedTo(ctx context.Context, admin string) (map[uint16]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, listenedPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/listeners?format=json", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("what Envoy listens to: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	type address struct {
		Socket struct {
			Port     uint16 `json:"port_value"`
			Protocol string `json:"protocol"` // TCP where it is not said
		} `json:"socket_address"`
	}
	var all struct {
		Listeners []struct {
			Address address   `json:"local_address"`
			More    []address `json:"additional_local_addresses"`
		} `json:"listener_statuses"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("what Envoy listens to: %w", err)
	}
	ports := map[uint16]bool{}
	for _, l := range all.Listeners {
		for _, at := range append(l.More, l.Address) {
			if at.Socket.Port != 0 && at.Socket.Protocol != "UDP" {
				ports[at.Socket.Port] = true
			}
		}
	}
	return ports, nil
}
