package secrets

import (
	"crypto/x509"
	"maps"
	"slices"
	"sync"
	"time"
)

// material is what the agent holds at one moment. It is immutable; certificate is nil before the first one.
type material struct {
	certificate *certificate
	issued      []*x509.Certificate // roots that came with the certificate
	given       []*x509.Certificate // roots of the --ca-root file
	others      map[string]secret   // what the controller gives for hosts outside, by name
	pods        map[string]secret   // the certificates of pods that a node's agent serves, by their identities
}

// roots is what to trust: the controller's word and the file's, so that a rotation which reached only one of them
// breaks nothing.
func (m *material) roots() []*x509.Certificate { return union(m.issued, m.given) }

// disowned reports whether the --ca-root file no longer vouches for the certificate: the mesh got another CA.
func (m *material) disowned(now time.Time) bool {
	return m.certificate != nil && len(m.given) > 0 && !m.certificate.expired(now) && m.certificate.trustedBy(m.given, now) != nil
}

func (m *material) equal(o *material) bool {
	same := (*x509.Certificate).Equal
	return m.certificate == o.certificate && slices.EqualFunc(m.issued, o.issued, same) &&
		slices.EqualFunc(m.given, o.given, same) &&
		maps.EqualFunc(m.others, o.others, sameSecret) && maps.EqualFunc(m.pods, o.pods, sameSecret)
}

func sameSecret(a, b secret) bool { return a.version == b.version }

// board shows the current material to any number of readers, and tells them of changes.
type board struct {
	mutex   sync.Mutex
	current *material

	following sync.Mutex
	followers map[*func()]struct{} // are called when current is replaced

	packing sync.Mutex
	packed  packed
}

// packed is what of a material may be handed out.
type packed struct {
	of      *material
	expired bool // its certificate
	all     map[string]secret
}

func newBoard() *board {
	return &board{current: &material{}, followers: map[*func()]struct{}{}}
}

// follow has f called after each change, until it is called what it gives: not to wait for anybody, nor while a lock is held that f takes.
func (b *board) follow(f func()) (unfollow func()) {
	b.following.Lock()
	defer b.following.Unlock()
	b.followers[&f] = struct{}{}
	return func() {
		b.following.Lock()
		defer b.following.Unlock()
		delete(b.followers, &f)
	}
}

// tell calls them.
func (b *board) tell() {
	b.following.Lock()
	defer b.following.Unlock()
	for f := range b.followers {
		(*f)()
	}
}

// read returns the current material.
func (b *board) read() *material {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.current
}

// secrets are those of a material that may be handed out now, by name: made once for all streams, of which an agent that serves a node's pods has one for each. Nobody changes them.
func (b *board) secrets(m *material, now time.Time) (map[string]secret, error) {
	b.packing.Lock()
	defer b.packing.Unlock()
	expired := m.certificate != nil && m.certificate.expired(now)
	if b.packed.of != m || b.packed.expired != expired {
		all, err := m.secrets(now)
		if err != nil {
			return nil, err
		}
		b.packed = packed{m, expired, all}
	}
	return b.packed.all, nil
}

// update replaces the material by what change makes of it, and reports whether that is something else.
func (b *board) update(change func(material) material) (changed bool) {
	if changed = b.replace(change); changed {
		b.tell()
	}
	return changed
}

func (b *board) replace(change func(material) material) (changed bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	next := change(*b.current)
	if next.equal(b.current) {
		return false
	}
	b.current = &next
	return true
}
