package agent

import (
	"context"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/sallyport/sallyport/sidecar/probe"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/xds/health"
)

// machine says whether it is the agent of a machine that joins by a group.
func (c *Config) machine() bool {
	group, _ := c.Proxy.Metadata[health.GroupMetadata].(string)
	return c.sidecar() && group != ""
}

// probeWatch follows the probe of the machine's group.
func (a *agent) probeWatch() relay.Watch {
	a.prober = probe.New(a.cfg.Proxy.IPs[0], a.cfg.ExecProbes, func(problem string) {
		if problem == "" {
			a.cfg.Log.Info("the machine is well, by its group's probe")
		} else {
			a.cfg.Log.Warn("the machine is not well, by its group's probe", "reason", problem)
		}
		_ = a.relay.TellHealth(context.Background(), problem) // which fails when the relay has ended
	}, func() { _ = a.relay.ForgetHealth(context.Background()) })
	return relay.Watch{TypeURL: health.ProbeType, Apply: func(changed []*discoveryv3.Resource, removed []string) map[string]error {
		if len(removed) > 0 {
			a.prober.Set(nil)
		}
		for _, r := range changed {
			p, err := health.Unmarshal(r.GetResource().GetValue())
			if err != nil {
				return map[string]error{r.GetName(): err}
			}
			a.prober.Set(&p)
		}
		return nil
	}}
}
