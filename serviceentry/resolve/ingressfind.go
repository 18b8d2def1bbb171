package resolve

import (
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// What an ingress gateway does with one connection, and one request, by its servers and rows: how Envoy finds them is here once more, for whoever asks
// without a proxy.

// Listens is where the gateway's pods listen for a port as clients know it.
func (a Ingress) Listens(port uint32) uint32 { return a.snap.Listens(a.Ingress, port) }

// ServersAt are those that the gateway opens for TCP where its pods listen. They are all of one family.
func (a Ingress) ServersAt(listen uint32) (out []IngressServer) {
	for _, s := range a.Servers() {
		if s.Listen == listen && s.Serves != registry.ServesDatagrams {
			out = append(out, s)
		}
	}
	return out
}

// NotOpened is the Gateway whose server of a port is not opened, where in it that is written, and why; "" where there is none.
func (a Ingress) NotOpened(port uint32) (gateway config.Key, field, why string) {
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if o.Port == port && o.Serves == registry.NotServed && len(o.Closed) > 0 {
			return o.Gateway.Key, fieldOf(o), o.Closed[0]
		}
	}
	return config.Key{}, "", ""
}

// ByServerName gives the server whose chain takes TLS for a name: the one that has it, else the one with the longest pattern, else the one for all. ""
// is of a client that says none. nil: it is nobody's.
func ByServerName(servers []IngressServer, name string) *IngressServer {
	var best *IngressServer
	longest := 0
	for i := range servers {
		for _, host := range servers[i].Hosts {
			rank := 0
			switch {
			case host == "*":
				rank = 1
			case host == name:
				rank = len(name) + 2
			case registry.Covers(host, name):
				rank = len(host) + 1
			}
			if rank > longest {
				best, longest = &servers[i], rank
			}
		}
	}
	return best
}

// Row finds what a server's table says of a name: its own row, else that of the narrowest pattern. "" is of connections that say none.
func (a Ingress) Row(t IngressTable, name string) (string, *IngressRow) {
	for _, n := range widening(name) {
		if row := a.rowOf(t, n); row != nil {
			return n, row
		}
	}
	return "", nil
}

// BytesRow is that of connections to a port that say nothing.
func (a Ingress) BytesRow(t IngressTable) *IngressRow {
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if o.Serves.Nameless() && o.Serves != registry.ServesDatagrams && tableOf(o) == t {
			return a.rowOf(t, registry.CatchAllName(o.Port))
		}
	}
	return nil
}

func (a Ingress) rowOf(t IngressTable, name string) *IngressRow {
	if !a.snap.HasName(name) {
		return nil
	}
	n, _ := a.Name(name)
	for i := range n.Rows {
		if n.Rows[i].Table == t {
			return &n.Rows[i]
		}
	}
	return nil
}

// widening are a name, and the patterns that cover it, the narrowest first.
func widening(name string) []string {
	var out []string
	if name != "" {
		out = append(out, name)
	}
	for i := 1; i < len(name); i++ {
		if name[i] == '.' {
			out = append(out, "*"+name[i:])
		}
	}
	return append(out, "*")
}

// Redirects is the Gateway that has plain requests for a name's row come again by TLS; nil without one.
func (a Ingress) Redirects(t IngressTable, name string) *registry.Gateway {
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if o.Redirect && tableOf(o) == t && slices.ContainsFunc(o.Hosts, func(f registry.HostFilter) bool { return f.Host == name }) {
			return o.Gateway
		}
	}
	return nil
}
