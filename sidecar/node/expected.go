package node

// expect has the certificates asked for of pods that the controller has told of, and keeps them while it does: most are there before the plugin tells of their networks, and a pod that starts
// waits for its listeners alone. Who cannot be had one for is told when it is taken in.
func (p *Pods) expect() {
	p.mu.Lock()
	wanted := make(map[string]string, len(p.remote))
	for key, r := range p.remote {
		if p.waiting(r) {
			wanted[key] = r.Identity
		}
	}
	p.mu.Unlock()
	for key, identity := range p.expected {
		if wanted[key] != identity {
			p.cfg.Certificates.Drop(identity)
			delete(p.expected, key)
		}
	}
	for key, identity := range wanted {
		if _, kept := p.expected[key]; kept {
			continue
		}
		if _, err := p.cfg.Certificates.Keep(identity); err == nil {
			p.expected[key] = identity
		}
	}
}
