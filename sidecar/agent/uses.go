package agent

import (
	"strings"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// What is used all the time is to stay in Envoy (docs/adr/0205-rows-are-gathered.md): a record is a use of the host that it names, and so is what is open, which has none yet.

// fetches says whether the agent's Envoy may be given rows when they are used.
func (a *agent) fetches() bool { return a.cfg.sidecar() || a.router() }

// useLog is a reader of Envoy's log that notes which hosts were used.
type useLog struct {
	LogReader
	used func(table, host string)
	exit bool // its tables know hosts by their ports
}

// Records implements LogReader.
func (l useLog) Records(message string) ([]record.Record, error) {
	records, err := l.LogReader.Records(message)
	for i := range records {
		if r := &records[i]; r.Host != "" && r.Reporter != record.ReporterDestination {
			l.used("", rowHost(r.Host, r.Port, l.exit))
		}
	}
	return records, err
}

// rowHost is a host as rows are for it.
func rowHost(host string, port uint32, exit bool) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if exit {
		return wire.HostPort(host, port)
	}
	return host
}

// openHosts gives the hosts that something is open to.
func (a *agent) openHosts(each func(table, host string)) {
	exit := a.router()
	a.tunnels.Each(func(q envoylog.Question) {
		if exit {
			each("", q.Authority)
			return
		}
		for _, host := range []string{q.Host(), q.Registered} {
			if host != "" {
				each("", rowHost(host, 0, false))
			}
		}
	})
}
