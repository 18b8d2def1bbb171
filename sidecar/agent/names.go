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

// resolver makes the pod's DNS server. A sidecar's has two sides: the applications', which knows the mesh's names,
// and Envoy's own, which must not, for an allocated address is no place to connect to.
func (c *Config) resolver(metrics prometheus.Registerer) (*dnsproxy.Server, error) {
	config := dnsproxy.Config{Upstreams: c.DNSUpstream, Prefetch: true, Log: c.Log}
	if len(c.DNSUpstream) == 0 {
		config.ResolvConf = resolvConf
	}
	if c.sidecar() {
		config.Views = []dnsproxy.View{
			{Name: "app", Listen: []string{c.DNSAddr}, Names: true, Search: c.searchDomains()},
			{Name: "resolver", Listen: []string{c.ResolverAddr}},
		}
	} else {
		config.Views = []dnsproxy.View{{Name: "resolver", Listen: []string{c.DNSAddr}}}
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
