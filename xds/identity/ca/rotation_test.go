package ca

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) time() time.Time         { return c.now }
func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

func roles(s Status) string {
	var all []string
	for _, c := range s.Roots {
		all = append(all, c.Role)
	}
	return strings.Join(all, " ")
}

// agent is what one workload holds: its certificate, and the roots that came with it.
type agent struct {
	chain []string
}

func enrol(t *testing.T, c *CA) agent {
	t.Helper()
	chain, err := c.Sign(csr(t, newKey(t), x509.CertificateRequest{}), checkout, DefaultTTL)
	if err != nil {
		t.Fatal(err)
	}
	return agent{chain}
}

func (a agent) trusts(b agent, now time.Time) error {
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	options.Roots.AppendCertsFromPEM([]byte(a.chain[len(a.chain)-1]))
	leaf, err := pemfile.ParseCertificates([]byte(b.chain[0]))
	if err != nil {
		return err
	}
	_, err = leaf[0].Verify(options)
	return err
}

// A root is rotated in three steps. Agents renew when half of a certificate's lifetime is over: at every moment those
// that have and those that have not yet trust each other.
func TestRotation(t *testing.T) {
	at := &clock{time.Now().Truncate(time.Second)}
	data := t.TempDir()
	c := open(t, Options{DataDir: data, Now: at.time})
	first := c.Bundle()[0]
	r := Rotation{Store: InFolder(data), Now: at.time}
	agents := map[string]agent{"from the beginning": enrol(t, c)}
	everybody := func(when string) {
		t.Helper()
		for ofA, a := range agents {
			for ofB, b := range agents {
				if err := a.trusts(b, at.now); err != nil {
					t.Errorf("%s: the agent %s does not trust the one %s: %v", when, ofA, ofB, err)
				}
			}
		}
	}
	step := func(want Step, wantRoles string, wait time.Duration) {
		t.Helper()
		if s, err := r.Status(t.Context()); err != nil || s.NextStep != want || s.NextAt.IsZero() != (wait == 0) {
			t.Fatalf("before %s: %+v, %v", want, s, err)
		}
		if wait > 0 {
			at.advance(wait - time.Second)
			var early *TooEarly
			if _, err := r.Advance(t.Context(), false); !errors.As(err, &early) || !early.At.Equal(at.now.Add(time.Second)) {
				t.Fatalf("%s too early: %v", want, err)
			}
			at.advance(time.Second)
		}
		s, err := r.Advance(t.Context(), false)
		if err != nil || s.LastStep != want && want != StepDrop || roles(s) != wantRoles {
			t.Fatalf("%s: %+v, %v", want, s, err)
		}
		agents["of the minute before "+string(want)] = enrol(t, c)
		if changed, err := c.Reload(); err != nil || !changed {
			t.Fatalf("%s: Reload = %v, %v", want, changed, err)
		}
		agents["after "+string(want)] = enrol(t, c)
		everybody("after " + string(want))
	}
	step(StepTrust, "signs next", 0)
	if !c.Bundle()[0].Equal(first) {
		t.Error("the next root signs already")
	}
	at.advance(DefaultTTL * 55 / 100) // whoever holds an older certificate has renewed it
	agents = map[string]agent{"after trust": enrol(t, c)}
	step(StepSign, "signs old", StepTrust.settles(DefaultTTL)-DefaultTTL*55/100)
	if c.Bundle()[0].Equal(first) {
		t.Error("the old root signs still")
	}
	at.advance(DefaultTTL * 55 / 100)
	agents = map[string]agent{"after sign": enrol(t, c)}
	step(StepDrop, "signs", StepSign.settles(DefaultTTL)-DefaultTTL*55/100)
	if len(c.Bundle()) != 1 || c.Bundle()[0].Equal(first) {
		t.Errorf("%d roots at the end", len(c.Bundle()))
	}
	if left, _ := filepath.Glob(filepath.Join(data, "ca", "*")); len(left) != 4 { // key, certificate, lock, roots/
		t.Errorf("left behind: %v", left)
	}
}

// Wherever a controller or a command dies while it replaces files, the CA works, trusts the roots of before, and the
// step can be taken again.
func TestRotationInterrupted(t *testing.T) {
	at := &clock{time.Now().Truncate(time.Second)}
	for _, want := range []Step{StepTrust, StepSign, StepDrop} {
		for cut := 0; ; cut++ {
			data := t.TempDir()
			c := open(t, Options{DataDir: data, Now: at.time})
			r := Rotation{Store: InFolder(data), Now: at.time}
			var s Status
			for s.NextStep != want {
				var err error
				if s, err = r.Status(t.Context()); err != nil {
					t.Fatal(err)
				}
				if s.NextStep != want {
					if _, err := r.Advance(t.Context(), true); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := c.Reload(); err != nil {
				t.Fatal(err)
			}
			before := enrol(t, c)
			dying := &dyingStore{Store: r.Store, folder: filepath.Join(data, "ca"), writes: cut}
			_, err := Rotation{Store: dying, Now: at.time}.Advance(t.Context(), true)
			if !errors.Is(err, errDied) {
				break // all writes were made
			}
			if _, err := c.Reload(); err != nil {
				t.Fatalf("%s, died after %d writes: %v", want, cut, err)
			}
			if err := enrol(t, c).trusts(before, at.now); err != nil && want != StepDrop {
				t.Errorf("%s, died after %d writes: %v", want, cut, err)
			}
			open(t, Options{DataDir: data, Now: at.time})
			for range 4 { // whatever is left of the rotation can be taken to its end
				if s, err = r.Status(t.Context()); err != nil || s.LastStep == "" && len(s.Roots) == 1 {
					break
				}
				if _, err = r.Advance(t.Context(), true); err != nil {
					break
				}
			}
			if err != nil || len(s.Roots) != 1 || s.LastStep != "" {
				t.Errorf("%s, died after %d writes: ends with %+v, %v", want, cut, s, err)
			}
		}
	}
}

var errDied = errors.New("died")

// dyingStore makes a number of a change's writes, and no more.
type dyingStore struct {
	Store
	folder string
	writes int
}

func (d *dyingStore) Save(ctx context.Context, f Files) error {
	old, err := d.Load(ctx)
	if err != nil {
		return err
	}
	all, err := plan(old, f)
	if err != nil {
		return err
	}
	if d.writes >= len(all) {
		return nil
	}
	for _, w := range all[:d.writes] {
		if err := replace(filepath.Join(d.folder, w.name), w.content, w.perm); err != nil {
			return err
		}
	}
	return errDied
}

func TestRotationAbandoned(t *testing.T) {
	data := t.TempDir()
	c := open(t, Options{DataDir: data})
	r := Rotation{Store: InFolder(data)}
	if _, err := r.Abandon(t.Context()); err == nil {
		t.Error("abandoned what was not begun")
	}
	if _, err := r.Advance(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s, err := r.Abandon(t.Context())
	if err != nil || s.NextStep != StepTrust || roles(s) != "signs" {
		t.Errorf("abandoned: %+v, %v", s, err)
	}
	if _, err := c.Reload(); err != nil || len(c.Bundle()) != 1 {
		t.Errorf("%d roots, %v", len(c.Bundle()), err)
	}
	for range 2 {
		if _, err := r.Advance(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Abandon(t.Context()); err == nil || !strings.Contains(err.Error(), "signs already") {
		t.Errorf("abandoned what signs: %v", err)
	}
}

// A key that got lost between two steps stops the rotation, not the mesh.
func TestRotationWithoutItsNextKey(t *testing.T) {
	data := t.TempDir()
	open(t, Options{DataDir: data})
	r := Rotation{Store: InFolder(data)}
	if _, err := r.Advance(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(data, "ca", NextKeyFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Advance(t.Context(), true); err == nil || !strings.Contains(err.Error(), "abandon") {
		t.Errorf("Advance: %v", err)
	}
	if s, err := r.Abandon(t.Context()); err != nil || s.NextStep != StepTrust {
		t.Errorf("Abandon: %+v, %v", s, err)
	}
}

// Of several commands at once one takes the step.
func TestRotationAtOnce(t *testing.T) {
	data := t.TempDir()
	open(t, Options{DataDir: data})
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { _, errs[i] = Rotation{Store: InFolder(data)}.Advance(t.Context(), false) })
	}
	group.Wait()
	done := 0
	for _, err := range errs {
		var early *TooEarly
		switch {
		case err == nil:
			done++
		case errors.Is(err, ErrConflict), errors.As(err, &early):
		default:
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d of them took a step", done)
	}
}

func TestRotationOfAGivenCA(t *testing.T) {
	root := newAuthority(t, "root", newKey(t), nil, time.Hour)
	key, err := pemfile.EncodeKey(root.key)
	if err != nil {
		t.Fatal(err)
	}
	text := pemfile.EncodeCertificates(root.certificate)
	r := Rotation{Store: given(writeCACerts(t, key, text, nil, text))}
	var theirs *GivenError
	if _, err := r.Advance(t.Context(), true); !errors.As(err, &theirs) {
		t.Errorf("Advance: %v", err)
	}
	if s, err := r.Status(t.Context()); err != nil || !s.Given || s.NextStep != "" {
		t.Errorf("Status = %+v, %v", s, err)
	}
}
