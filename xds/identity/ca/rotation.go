package ca

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// Step is one of the three steps in which a root is rotated while traffic flows.
type Step string

// The steps, in their order.
const (
	StepTrust Step = "trust" // a next root is made and trusted; the old one goes on signing
	StepSign  Step = "sign"  // the next root signs; the old one stays trusted
	StepDrop  Step = "drop"  // the old root is trusted no more
)

// margin is for what happens beside the renewal of certificates: controllers that look at the CA from time to time,
// kubelets that refresh volumes, agents that try again.
const margin = 5 * time.Minute

// settles is how long after a step the next one may follow, given the lifetime of certificates. Agents renew at half
// of it, give or take a twentieth, and take the trusted roots with each renewal. A certificate of the old root may be
// in use until it expires.
func (s Step) settles(lifetime time.Duration) time.Duration {
	if s == StepTrust {
		return lifetime*6/10 + margin
	}
	return lifetime + margin
}

// TooEarly says that a step would break connections, because the one before it has not reached every agent.
type TooEarly struct {
	Step Step
	At   time.Time // from when on it may be taken
}

func (e *TooEarly) Error() string {
	return fmt.Sprintf("the step %q is too early: not every agent has what the last step brought before %s", e.Step, e.At.UTC().Format(time.RFC3339))
}

// Rotation changes the root of a CA that a Store keeps, a step at a time. Controllers follow by CA.Watch.
type Rotation struct {
	Store Store
	// Lifetime is how long workload certificates live, as the controllers are configured; 0 is DefaultTTL.
	Lifetime time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Status tells how far the rotation is, fs.ErrNotExist when there is no CA yet.
func (r Rotation) Status(ctx context.Context) (Status, error) {
	s, err := r.load(ctx)
	if err != nil {
		return Status{}, err
	}
	return s.status(r.lifetime()), nil
}

// Advance takes the step that is next. It is a *TooEarly before its time, unless forced, a *GivenError for a CA that is
// somebody else's, ErrConflict when another rotation was faster.
func (r Rotation) Advance(ctx context.Context, force bool) (Status, error) {
	s, err := r.load(ctx)
	if err != nil {
		return Status{}, err
	}
	if s.files.Given {
		return Status{}, &GivenError{s.files.Origin}
	}
	step, earliest := s.due(r.lifetime())
	if !force && s.now.Before(earliest) {
		return Status{}, &TooEarly{Step: step, At: earliest}
	}
	switch step {
	case StepTrust:
		err = s.trust()
	case StepSign:
		err = s.sign()
	case StepDrop:
		err = s.drop()
	}
	if err != nil {
		return Status{}, err
	}
	return r.save(ctx, s)
}

// Abandon takes back the first step: the next root, which has signed nothing yet, is trusted no more.
func (r Rotation) Abandon(ctx context.Context) (Status, error) {
	s, err := r.load(ctx)
	if err != nil {
		return Status{}, err
	}
	if s.next == nil && !s.lostNext() {
		return Status{}, errors.New("there is no next root to abandon: a root that signs already is replaced by another rotation")
	}
	if s.next != nil {
		s.setRoots(without(s.issuer.roots, fingerprint(s.next)))
	}
	s.files.NextKey, s.files.NextCertificate, s.files.Rotation = nil, nil, nil
	return r.save(ctx, s)
}

// save stores the changed files, unless a controller could not load them.
func (r Rotation) save(ctx context.Context, s *state) (Status, error) {
	if _, err := s.files.issuer(s.now); err != nil {
		return Status{}, fmt.Errorf("the step would leave a CA that does not work: %w", err)
	}
	if err := r.Store.Save(ctx, s.files); err != nil {
		return Status{}, err
	}
	return r.Status(ctx)
}

func (r Rotation) lifetime() time.Duration {
	if r.Lifetime == 0 {
		return DefaultTTL
	}
	return r.Lifetime
}

func (r Rotation) load(ctx context.Context) (*state, error) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	files, err := r.Store.Load(ctx)
	if err != nil {
		return nil, err
	}
	return readState(files, now())
}

// trust makes the next root, unless an interrupted attempt has, and trusts it.
func (s *state) trust() error {
	if s.next == nil {
		key, err := newKeyText()
		if err != nil {
			return err
		}
		signer, err := pemfile.ParseKey(key)
		if err != nil {
			return err
		}
		text, err := selfSign(signer, s.trustDomain(), s.now)
		if err != nil {
			return err
		}
		next, err := pemfile.ParseCertificates(text)
		if err != nil {
			return err
		}
		s.files.NextKey, s.files.NextCertificate, s.next = key, text, next[0]
	}
	s.setRoots(append(slices.Clone(s.issuer.roots), s.next))
	return s.note(progress{Step: StepTrust, At: s.now, Old: fingerprint(s.issuer.roots[0])})
}

// sign makes the next root the one that signs.
func (s *state) sign() error {
	if s.lostNext() {
		return fmt.Errorf("%s: the next root's key is gone: abandon this rotation and begin again", s.files.Origin)
	}
	if s.next != nil {
		if !slices.ContainsFunc(s.issuer.roots, s.next.Equal) {
			return fmt.Errorf("%s: the next root is not in %s any more: abandon this rotation and begin again", s.files.Origin, RootsFile)
		}
		s.files.Key, s.files.Certificate, s.files.Chain = s.files.NextKey, s.files.NextCertificate, nil
		s.setRoots(append([]*x509.Certificate{s.next}, s.issuer.roots...))
	}
	s.files.NextKey, s.files.NextCertificate = nil, nil
	return s.note(progress{Step: StepSign, At: s.now, Old: s.progress.Old})
}

// drop ends the rotation.
func (s *state) drop() error {
	s.setRoots(without(s.issuer.roots, s.progress.Old))
	s.files.Rotation = nil
	return nil
}

// Watch reloads the CA every interval until ctx ends, so that a rotated root or a renewed intermediate (a mounted
// secret, or one of the API) is taken over without a restart. What cannot be read, or does not belong together, is
// logged and changes nothing.
func (c *CA) Watch(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := c.ReloadContext(ctx); err != nil && ctx.Err() == nil {
				c.options.Log.Error("going on with the CA as it was", "error", err)
			}
		}
	}
}
