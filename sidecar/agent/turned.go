package agent

// turnedStats are the counters of datagrams that a gateway took and led nowhere: of a share that nothing takes, and of Services that have as many
// sessions as they may, or nobody to send to. No session begins, so Envoy has no entry of it.
const turnedStats = `udp\..+\.downstream_sess_no_route|cluster\.outbound\|[0-9]+\|udp\..*\.upstream_cx_(overflow|none_healthy)`

// turnedAway knows how far such counters were.
type turnedAway map[string]uint64

// since gives how many datagrams more there are by now. A counter that is lower than before is a new listener's or Envoy's; one that is gone comes
// again at 0.
func (t turnedAway) since(now map[string]uint64) (more uint64) {
	for name, n := range now {
		if last := t[name]; last <= n {
			n -= last
		}
		more += n
	}
	return more
}

// noteTurned has a gap for those since the last time. Where it cannot be noted they are among the next.
func (d *drops) noteTurned(now map[string]uint64) error {
	if n := d.turned.since(now); n > 0 {
		d.log.Warn("datagrams were turned away", "count", n)
		if err := d.gap(n, "datagrams were turned away: what their route leads to takes none, or has as many sessions as it may"); err != nil {
			return err
		}
	}
	d.turned = now
	return nil
}
