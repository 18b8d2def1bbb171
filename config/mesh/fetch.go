package mesh

import "time"

// leastKept is how short KeepUnused may be: what leaves and comes back all the time costs more than it saves.
const leastKept = 10 * time.Second

// applyFetch reads which hosts sidecars, and egress gateways, hold.
func (c *Config) applyFetch(b *block, top map[string]any) {
	if s := b.text("sallyport.fetch", top["fetch"]); s != "" {
		if s != All && s != OnUse {
			b.add("sallyport.fetch", s, "is neither", `write "all", so that sidecars hold every host that they see, or "onUse" for those that their pods use`)
		}
		c.Fetch = s
	}
	if s := b.text("sallyport.fetchGateways", top["fetchGateways"]); s != "" {
		if s != All && s != OnUse {
			b.add("sallyport.fetchGateways", s, "is neither", `write "all", so that egress gateways' Envoys hold every host that leaves by them, or "onUse" for those that are used`)
		}
		c.FetchGateways = s
	}
	if s := b.text("sallyport.keepUnused", top["keepUnused"]); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < leastKept {
			b.add("sallyport.keepUnused", s, "is no duration of ten seconds or more", `write how long a sidecar holds a host that its pod does not use any more, as in "24h"`)
		}
		c.KeepUnused = d
	}
}
