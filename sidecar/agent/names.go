package agent

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/dnsproxy"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/sidecar/relay"
)

const resolvConf = "/etc/resolv.conf"

// meshNames are those that the cluster's own DNS answers, with the private addresses of its services. A sidecar reaches
// them as its pod does; through an egress gateway they are nobody's way in.
const meshNames = "*.svc.cluster.local"

// resolver makes the pod's DNS server. A sidecar's has two sides: the applications', which knows the mesh's names,
// and Envoy's own, which must not, for an allocated address is no place to connect to. What Envoy is told is where it
// connects, so that side refuses addresses of the inside; onRefuse is told of them.
func (c *Config) resolver(metrics prometheus.Registerer, onRefuse func(dnsproxy.Refusal)) (*dnsproxy.Server, error) {
	config := dnsproxy.Config{Upstreams: c.DNSUpstream, Prefetch: true, Log: c.Log, OnRefuse: onRefuse}
	allowed, err := parsePrivate(c.AllowPrivate)
	if err != nil {
		return nil, err
	}
	if len(c.DNSUpstream) == 0 {
		config.ResolvConf = resolvConf
	}
	if c.sidecar() {
		allowed.hosts = append(allowed.hosts, meshNames)
		config.Views = []dnsproxy.View{
			{Name: "app", Listen: []string{c.DNSAddr}, Names: true, Search: c.searchDomains()},
			{Name: "resolver", Listen: []string{c.ResolverAddr}, Refuse: allowed.refuses},
		}
	} else {
		config.Views = []dnsproxy.View{{Name: "resolver", Listen: []string{c.DNSAddr}, Refuse: allowed.refuses}}
	}
	server, err := dnsproxy.New(config)
	if err != nil {
		return nil, err
	}
	if err := metrics.Register(server); err != nil {
		return nil, err
	}
	return server, nil
}

// searchDomains are those that Kubernetes writes into every pod's resolv.conf.
func (c *Config) searchDomains() []string {
	return []string{c.Proxy.Namespace + ".svc.cluster.local", "svc.cluster.local", "cluster.local"}
}

// watchNames keeps the name table as the controller says.
func watchNames(table *dnsproxy.Table) relay.Watch {
	return relay.Watch{TypeURL: name.TypeURL, Apply: func(changed []*discoveryv3.Resource, removed []string) map[string]error {
		refused := map[string]error{}
		names := make([]name.Name, 0, len(changed))
		for _, r := range changed {
			n, err := name.Unmarshal(r.GetResource().GetValue())
			if err == nil && n.Host != r.GetName() {
				err = fmt.Errorf("the resource holds the host %q", n.Host)
			}
			if err == nil {
				err = n.Validate()
			}
			if err != nil {
				refused[r.GetName()] = err
				continue
			}
			names = append(names, n)
		}
		if err := table.Apply(names, removed); err != nil { // every name was validated: this is not one name's fault
			for _, n := range names {
				refused[n.Host] = err
			}
		}
		table.SetReady()
		return refused
	}}
}
