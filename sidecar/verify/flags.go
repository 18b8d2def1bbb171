package verify

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Flags are targets and choices as they are written; [Bind] adds them to a command. Both programs have the same.
type Flags struct {
	Hosts, Addrs, Resolvers, DoH, Tunnels, TCPPorts, Registered, Gateways, Pods []string
	Only, Skip                                                                  []string
	Wait                                                                        time.Duration
	HTTP, HTTPS                                                                 uint16
}

// Bind adds the flags to a command's.
func Bind(fs *pflag.FlagSet) *Flags {
	f := &Flags{}
	e := NewEnv()
	for _, list := range f.lists() {
		fs.StringSliceVar(list.values, list.name, nil, list.usage)
	}
	fs.Uint16Var(&f.HTTP, "http-port", e.ports.HTTP, "where targets answer by HTTP")
	fs.Uint16Var(&f.HTTPS, "https-port", e.ports.HTTPS, "where targets answer by TLS")
	fs.DurationVar(&f.Wait, "wait", e.Wait, "how long one answer is waited for")
	return f
}

// lists are the flags that may be given several times.
func (f *Flags) lists() []struct {
	name, usage string
	values      *[]string
} {
	return []struct {
		name, usage string
		values      *[]string
	}{
		{"target", "HOST outside that nobody registered, and that answers by HTTP and TLS", &f.Hosts},
		{"target-ip", "ADDRESS of a host outside, IPv4 or IPv6, that answers by HTTP, TLS, QUIC and ping", &f.Addrs},
		{"resolver", "ADDRESS[:PORT] of a name server that is not the pod's", &f.Resolvers},
		{"doh", "URL of a resolver over HTTPS, as https://dns.example/dns-query", &f.DoH},
		{"tunnel", "DOMAIN of a name server that you run: random names below it are asked for", &f.Tunnels},
		{"port", "further TCP PORT of --target-ip, such as one that is excluded from capture", &f.TCPPorts},
		{"registered", "HOST that is registered, to go to its address under the name of --target", &f.Registered},
		{"gateway", "HOST:PORT of an egress gateway", &f.Gateways},
		{"pod", "ADDRESS of another pod that has a proxy", &f.Pods},
		{"only", "WAY to try; all by default", &f.Only},
		{"skip", "WAY not to try", &f.Skip},
	}
}

// Args writes the flags out again, for another program that has them.
func (f *Flags) Args() []string {
	var args []string
	for _, list := range f.lists() {
		for _, v := range *list.values {
			args = append(args, "--"+list.name+"="+v)
		}
	}
	return append(args, fmt.Sprintf("--http-port=%d", f.HTTP), fmt.Sprintf("--https-port=%d", f.HTTPS), "--wait="+f.Wait.String())
}

// Env checks the flags. Every error names the flag and the value.
func (f *Flags) Env() (*Env, error) {
	e := NewEnv()
	e.Hosts, e.Tunnels, e.Registered = f.Hosts, f.Tunnels, f.Registered
	e.ports.HTTP, e.ports.HTTPS = f.HTTP, f.HTTPS
	if most := Limit / longest; f.Wait <= 0 || f.Wait > most {
		return nil, fmt.Errorf("--wait %s: must be more than nothing, and at most %s", f.Wait, most)
	}
	e.Wait = f.Wait
	for flag, hosts := range map[string][]string{"target": f.Hosts, "tunnel": f.Tunnels, "registered": f.Registered} {
		for _, h := range hosts {
			if _, err := netip.ParseAddr(h); err == nil || h == "" || strings.ContainsAny(h, "/: ") {
				return nil, fmt.Errorf("--%s %q: must be a host's name, like example.com", flag, h)
			}
		}
	}
	var err error
	if e.Addrs, err = parseAll("target-ip", f.Addrs, parseAddr); err != nil {
		return nil, err
	}
	if e.Pods, err = parseAll("pod", f.Pods, parseAddr); err != nil {
		return nil, err
	}
	if e.Resolvers, err = parseAll("resolver", f.Resolvers, parseResolver); err != nil {
		return nil, err
	}
	if e.TCPPorts, err = parseAll("port", f.TCPPorts, parsePort); err != nil {
		return nil, err
	}
	if e.DoH, err = parseAll("doh", f.DoH, parseDoH); err != nil {
		return nil, err
	}
	if e.Gateways, err = parseAll("gateway", f.Gateways, parseHostPort); err != nil {
		return nil, err
	}
	return e, nil
}

// Ways are those that the flags choose.
func (f *Flags) Ways() ([]Way, error) { return Choose(f.Only, f.Skip) }

func parseAll[T any](flag string, values []string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for _, v := range values {
		parsed, err := parse(v)
		if err != nil {
			return nil, fmt.Errorf("--%s %q: %w", flag, v, err)
		}
		out = append(out, parsed)
	}
	return out, nil
}

func parseAddr(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.IsUnspecified() || a.IsMulticast() {
		return a, fmt.Errorf("must be one IP address")
	}
	return a.Unmap(), nil
}

func parseResolver(text string) (netip.AddrPort, error) {
	if a, err := parseAddr(text); err == nil {
		return netip.AddrPortFrom(a, 53), nil
	}
	p, err := netip.ParseAddrPort(text)
	if err != nil {
		return p, fmt.Errorf("must be ADDRESS or ADDRESS:PORT")
	}
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), nil
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("must be a port, 1 to 65535")
	}
	return uint16(n), nil
}

func parseDoH(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf("must be a URL like https://dns.example/dns-query")
	}
	return text, nil
}

func parseHostPort(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = parsePort(port)
	}
	if err != nil || host == "" {
		return "", fmt.Errorf("must be HOST:PORT")
	}
	return text, nil
}
