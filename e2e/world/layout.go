package world

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The addresses. Every run has the same ones: namespaces keep them apart. What is outside uses the networks of
// RFC 5737 (documentation), so that no address is private.
var (
	AppAddr     = netip.MustParseAddr("10.77.0.10")
	GatewayAddr = netip.MustParseAddr("10.77.0.20")
	ControlAddr = netip.MustParseAddr("10.77.0.30")
	RouterAddr  = netip.MustParseAddr("10.77.0.1") // a private address that is none of the mesh's own

	OutsideAddrs = []netip.Addr{
		netip.MustParseAddr("203.0.113.10"),
		netip.MustParseAddr("198.51.100.10"),
		netip.MustParseAddr("203.0.113.20"),
		netip.MustParseAddr("203.0.113.66"),
	}
	NameServerAddr = netip.MustParseAddr("203.0.113.53")
)

// Users that programs run under.
const (
	ProxyUID   = 1337 // agent and Envoy; the pod's redirect rules let this user pass
	AppUID     = 1000
	ControlUID = 1338
)

// bridgeAddress is that of the pods' router on their network, locally administered.
const bridgeAddress = "02:00:00:77:00:01"

const (
	podNetwork     = "10.77.0.1/24"
	outsideNetwork = "203.0.113.1/24"
	movedNetwork   = "198.51.100.1/24"
	wideNetwork    = "10.77.0.1/16"
)

// World is a network of hosts: two pods and a control host on one network, a router, and the outside behind it.
// The router translates no addresses, so that the outside sees who really connects.
type World struct {
	*Run
	App, Gateway, Control, Outside *Host
	Router                         *Host
}

// New builds the network. Close the run to remove it.
func New(run *Run) (*World, error) {
	w := &World{Run: run}
	for _, h := range []struct {
		name string
		host **Host
	}{{"router", &w.Router}, {"app", &w.App}, {"gateway", &w.Gateway}, {"control", &w.Control}, {"outside", &w.Outside}} {
		host, err := run.addHost(h.name)
		if err != nil {
			return nil, err
		}
		*h.host = host
	}
	if err := w.wire(); err != nil {
		return nil, err
	}
	return w, w.nameServers()
}

func (r *Run) addHost(name string) (*Host, error) {
	h := &Host{Name: name, run: r, namespace: r.prefix + name}
	r.OnClose(func() error { return deleteNamespace(h.namespace) })
	if err := ip("netns add " + h.namespace); err != nil {
		return nil, err
	}
	return h, ip("-n " + h.namespace + " link set lo up")
}

// wire lays the cables: a bridge on the router for the pods, a cable from the router to the outside.
func (w *World) wire() error {
	router := "-n " + w.Router.namespace + " "
	calls := []string{
		// with an address of its own: otherwise it takes the lowest of its ports', and when a pod is added others go on sending to the one before
		router + "link add pods address " + bridgeAddress + " type bridge",
		router + "addr add " + podNetwork + " dev pods",
		router + "link set pods up",
	}
	for _, pod := range []struct {
		host *Host
		addr netip.Addr
	}{{w.App, AppAddr}, {w.Gateway, GatewayAddr}, {w.Control, ControlAddr}} {
		calls = append(calls, w.cable(pod.host, pod.host.Name)...)
		calls = append(calls, router+"link set "+pod.host.Name+" master pods")
		calls = append(calls, address(pod.host, pod.addr.String()+"/24")...)
		calls = append(calls, "-n "+pod.host.namespace+" route add default via 10.77.0.1")
	}
	calls = append(calls, w.cable(w.Outside, "outside")...)
	calls = append(calls, router+"addr add "+outsideNetwork+" dev outside", router+"addr add "+movedNetwork+" dev outside")
	for _, a := range append([]netip.Addr{NameServerAddr}, OutsideAddrs...) {
		calls = append(calls, address(w.Outside, a.String()+"/24")...)
	}
	calls = append(calls, "-n "+w.Outside.namespace+" route add default via 203.0.113.1")
	for _, call := range calls {
		if err := ip(call); err != nil {
			return err
		}
	}
	return w.Router.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	})
}

// cable connects eth0 of the host to an interface of the router.
func (w *World) cable(h *Host, port string) []string {
	return []string{
		fmt.Sprintf("link add %s netns %s type veth peer name eth0 netns %s", port, w.Router.namespace, h.namespace),
		fmt.Sprintf("-n %s link set %s up", w.Router.namespace, port),
		fmt.Sprintf("-n %s link set eth0 up", h.namespace),
	}
}

func address(h *Host, prefix string) []string {
	return []string{fmt.Sprintf("-n %s addr add %s dev eth0", h.namespace, prefix)}
}

// nameServers makes every host ask the outside's name server; in a pod the redirect rules have their say about that.
func (w *World) nameServers() error {
	for _, h := range []*Host{w.App, w.Gateway, w.Control} {
		if err := h.Etc("resolv.conf", nameServerConf()); err != nil {
			return err
		}
	}
	return nil
}

func nameServerConf() []byte {
	return fmt.Appendf(nil, "nameserver %s\noptions timeout:2 attempts:2\n", NameServerAddr)
}

// Etc gives programs on this host another /etc/NAME (a file, or one inside a directory that is replaced as a whole).
// Call it before they start.
func (h *Host) Etc(name string, content []byte) error {
	path := filepath.Join(etcNetnsDir, h.namespace, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func ip(call string) error {
	out, err := exec.Command("ip", strings.Fields(call)...).CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("ip %s: %w", call, err), errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}

// Widen gives the pods' network 10.77.0.0/16: those that are added with an address outside of 10.77.0.0/24 find the others in it, which find them by the router.
func (w *World) Widen() error {
	return ip("-n " + w.Router.namespace + " addr add " + wideNetwork + " dev pods")
}

// AddPod connects one more host to the pods' network.
func (w *World) AddPod(name string, addr netip.Addr) (*Host, error) {
	h, err := w.addHost(name)
	if err != nil {
		return nil, err
	}
	calls := append(w.cable(h, name), "-n "+w.Router.namespace+" link set "+name+" master pods")
	prefix := "/24"
	if !netip.MustParsePrefix(podNetwork).Contains(addr) {
		prefix = "/16" // Widen
	}
	calls = append(calls, address(h, addr.String()+prefix)...)
	calls = append(calls, "-n "+h.namespace+" route add default via 10.77.0.1")
	for _, call := range calls {
		if err := ip(call); err != nil {
			return nil, err
		}
	}
	return h, h.Etc("resolv.conf", nameServerConf())
}
