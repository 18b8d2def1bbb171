package agent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector reads the parts' counters when somebody scrapes.
type collector struct {
	agent *agent

	connected, fromDisk, synced        *prometheus.Desc
	streams, nacks, restarts           *prometheus.Desc
	accepted, rejected                 *prometheus.Desc
	spoolBytes, spoolLag, spoolDropped *prometheus.Desc
	refusing                           *prometheus.Desc
	envoyDropped, refusedHosts         *prometheus.Desc
	tunnels, tunnelsDenied             *prometheus.Desc
	tunnelsUntracked, tunnelsEnded     *prometheus.Desc
	tunnelsFailed, tunnelsUnasked      *prometheus.Desc
	tunnelsEnds                        *prometheus.Desc
	requests, requestsRefused          *prometheus.Desc
	silent, half                       *prometheus.Desc
}

func newCollector(a *agent) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sallyport_agent_"+name, help, labels, nil)
	}
	return &collector{
		agent:        a,
		connected:    desc("controller_connected", "1 while the controller answers."),
		fromDisk:     desc("served_from_disk", "1 while Envoy is served without the controller."),
		synced:       desc("envoy_synced", "1 when Envoy has accepted clusters and listeners."),
		streams:      desc("controller_streams_total", "Configuration streams opened to the controller."),
		nacks:        desc("nacks_total", "Responses that Envoy or the agent rejected."),
		restarts:     desc("envoy_restarts_total", "Unexpected ends of Envoy."),
		accepted:     desc("resources", "Accepted resources that are kept.", "type"),
		rejected:     desc("resources_rejected", "Resources whose present version was rejected.", "type"),
		spoolBytes:   desc("audit_spool_bytes", "Size of the audit spool."),
		spoolLag:     desc("audit_spool_records", "Audit records that are not yet acknowledged."),
		spoolDropped: desc("audit_spool_dropped_total", "Audit records dropped because the spool was full or could not be written."),
		refusing:     desc("audit_refusing", "1 while connections and requests are refused because there is no room for audit records."),
		envoyDropped: desc("access_log_dropped_total", "Access log entries that Envoy dropped because the agent did not take them in time."),
		refusedHosts: desc("dns_refused_hosts", "Hosts that resolved to addresses that are not public, in the last minute or so."),

		tunnels:          desc("tunnels", "Opaque connections that are open, and known: those through an egress gateway, and those that leave from where no gateway is."),
		tunnelsDenied:    desc("tunnels_denied", "Those of them, and of requests, that are denied by now, and still open."),
		tunnelsUntracked: desc("tunnels_untracked_total", "Opaque connections that nobody keeps an eye on, because there were too many, the kernel did not know them, or nobody can ask about them: they go on after their rule's end."),
		tunnelsEnded:     desc("tunnels_ended_total", "Opaque connections, and requests, that were ended because they were denied by then."),
		tunnelsFailed:    desc("tunnels_end_failures_total", "Attempts to end one that failed."),
		tunnelsUnasked:   desc("tunnels_unanswered_total", "Questions about open tunnels that the gateway's table did not answer, so that they are asked again, or whose answer rests on headers that nobody knows any more."),
		requests:         desc("requests_under_way", "Requests that are under way, and can be ended: those through an egress gateway, and those that leave from where no gateway is."),
		requestsRefused:  desc("requests_refused_total", "Requests that could not go on, because nobody could have ended them: there were too many, or nobody could ask about them."),
		silent:           desc("silent_ended_total", "Connections from outside that were ended since nothing had been asked for by them, for as long as they were there."),
		half:             desc("half_closed_ended_total", "Connections with servers that were ended since their client had said all, and the server neither answered nor ended."),
		tunnelsEnds:      desc("tunnels_can_end", "1 where connections can be ended, which is tried; else what a rule allowed goes on after its end."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.connected, c.fromDisk, c.synced, c.streams, c.nacks, c.restarts, c.accepted, c.rejected,
		c.spoolBytes, c.spoolLag, c.spoolDropped,
		c.refusing, c.envoyDropped, c.refusedHosts,
		c.tunnels, c.tunnelsDenied, c.tunnelsUntracked, c.tunnelsEnded, c.tunnelsFailed, c.tunnelsUnasked, c.tunnelsEnds,
		c.requests, c.requestsRefused, c.silent, c.half,
	} {
		out <- d
	}
}

// canEnd tries whether connections can be ended. Who does not answer takes its own time, and not that of what is asked next.
func (c *collector) canEnd() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return c.agent.tunnels.Ends(ctx)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	spool := c.agent.spool.Stats()
	put(c.spoolBytes, prometheus.GaugeValue, float64(spool.Bytes))
	put(c.spoolLag, prometheus.GaugeValue, float64(spool.LastSeq-min(spool.AckedSeq, spool.LastSeq)))
	put(c.spoolDropped, prometheus.CounterValue, float64(spool.Overflowed+spool.WriteErrors))
	put(c.refusing, prometheus.GaugeValue, number(c.agent.full.refusing.Load()))
	put(c.envoyDropped, prometheus.CounterValue, float64(c.agent.drops.total.Load()))
	put(c.refusedHosts, prometheus.GaugeValue, float64(c.agent.refusals.len()))
	put(c.restarts, prometheus.CounterValue, float64(c.agent.envoy.Restarts()))

	open := c.agent.tunnels.Stats()
	put(c.requests, prometheus.GaugeValue, float64(open.Requests))
	put(c.requestsRefused, prometheus.CounterValue, float64(open.Refused))
	put(c.silent, prometheus.CounterValue, float64(open.Silent))
	put(c.half, prometheus.CounterValue, float64(open.Half))
	put(c.tunnelsDenied, prometheus.GaugeValue, float64(open.Denied))
	put(c.tunnelsEnded, prometheus.CounterValue, float64(open.Ended))
	put(c.tunnelsFailed, prometheus.CounterValue, float64(open.Failed))
	put(c.tunnelsUnasked, prometheus.CounterValue, float64(open.Unasked))
	put(c.tunnels, prometheus.GaugeValue, float64(open.Open-open.Requests))
	put(c.tunnelsUntracked, prometheus.CounterValue, float64(open.Untracked))
	put(c.tunnelsEnds, prometheus.GaugeValue, number(c.canEnd()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	relay, err := c.agent.relay.Status(ctx, false)
	if err != nil {
		return
	}
	put(c.connected, prometheus.GaugeValue, number(relay.Connected))
	put(c.fromDisk, prometheus.GaugeValue, number(relay.FromDisk))
	put(c.synced, prometheus.GaugeValue, number(relay.Synced))
	put(c.streams, prometheus.CounterValue, float64(relay.Streams))
	put(c.nacks, prometheus.CounterValue, float64(relay.NACKs))
	for _, t := range relay.Types {
		put(c.accepted, prometheus.GaugeValue, float64(t.Accepted), t.Type)
		put(c.rejected, prometheus.GaugeValue, float64(len(t.Rejected)), t.Type)
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
