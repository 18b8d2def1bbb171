package agent

import "time"

// logFlush is a little more than Envoy's default for CommonGrpcAccessLogConfig.buffer_flush_interval, one second.
const logFlush = 1200 * time.Millisecond

// noteCrash tells of what Envoy had buffered when it died. How much that was nobody knows; the gap says at least one.
func (a *agent) noteCrash() {
	a.note(1, "Envoy ended unexpectedly: access log entries of its last second may be missing, and those of the connections that it had")
}

// noteCut tells of connections that were open when Envoy was ended: they would have been logged at their end.
func (a *agent) noteCut(connections int) {
	a.note(uint64(connections), "connections were still open when the proxy was ended")
}

func (a *agent) note(count uint64, reason string) {
	if err := a.spool.AppendGap(count, reason); err != nil {
		a.cfg.Log.Error("a gap in the audit log cannot be noted", "err", err)
	}
}
