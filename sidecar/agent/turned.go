package agent

// turnedStats are the counters of datagrams that a gateway took and led nowhere: of a share that nothing takes, and of Services that have as many
// sessions as they may, or nobody to send to. No session begins, so Envoy has no entry of it.
const turnedStats = `udp\..+\.downstream_sess_no_route|cluster\.outbound\|[0-9]+\|udp\..*\.upstream_cx_(overflow|none_healthy)`

// turnedAway knows how far such counters were.
type turnedAway map[string]uint64

// since takes their present values, and gives how many datagrams more there are. A counter that is lower than before is a new listener's or
// Envoy's; one that is gone comes again at 0.
func (t *turnedAway) since(now map[string]uint64) (more uint64) {
	for name, n := range now {
		if last := (*t)[name]; last <= n {
			n -= last
		}
		more += n
	}
	*t = now
	return more
}

func (d *drops) noteTurned(now map[string]uint64) error {
	before := d.turned
	n := d.turned.since(now)
	if n == 0 {
		return nil
	}
	d.log.Warn("datagrams were turned away", "count", n)
	err := d.gap(n, "datagrams were turned away: what their route leads to takes none, or has as many sessions as it may")
	if err != nil {
		d.turned = before // it is said when it can be
	}
	return err
}
