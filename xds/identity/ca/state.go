package ca

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// progress is what rotation.json holds: the last step that was taken.
type progress struct {
	Step Step      `json:"step"`
	At   time.Time `json:"at"`
	Old  string    `json:"old"` // fingerprint of the root that goes
}

// state is a CA in the course of its rotation.
type state struct {
	files    Files
	now      time.Time
	issuer   *issuer
	next     *x509.Certificate // that does not sign yet; nil for none
	progress progress          // zero without a rotation
}

func readState(files Files, now time.Time) (*state, error) {
	s := &state{files: files, now: now}
	var err error
	if s.issuer, err = files.issuer(now); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(files.Rotation)) > 0 {
		if err := json.Unmarshal(files.Rotation, &s.progress); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", files.Origin, RotationFile, err)
		}
	}
	if len(files.NextKey) > 0 && len(files.NextCertificate) > 0 {
		if s.next, err = files.readNext(); err != nil {
			return nil, err
		}
		if s.next.Equal(s.issuer.certificate) { // the step was interrupted after it signs
			s.next = nil
		}
	}
	return s, nil
}

func (f Files) readNext() (*x509.Certificate, error) {
	key, err := pemfile.ParseKey(f.NextKey)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", f.Origin, NextKeyFile, err)
	}
	next, err := f.parse(NextCertificateFile, f.NextCertificate)
	if err != nil {
		return nil, err
	}
	if !belongs(next[0], key) {
		return nil, fmt.Errorf("%s: %s is not the key of %s", f.Origin, NextKeyFile, NextCertificateFile)
	}
	return next[0], nil
}

// due is the step that is next, and from when on it may be taken.
func (s *state) due(lifetime time.Duration) (Step, time.Time) {
	switch s.progress.Step {
	case StepTrust:
		return StepSign, s.progress.At.Add(StepTrust.settles(lifetime))
	case StepSign:
		return StepDrop, s.progress.At.Add(StepSign.settles(lifetime))
	default:
		return StepTrust, time.Time{}
	}
}

// lostNext says that a next root was trusted whose key is not there.
func (s *state) lostNext() bool {
	return s.next == nil && s.progress.Step == StepTrust && fingerprint(s.issuer.roots[0]) == s.progress.Old
}

func (s *state) note(p progress) error {
	p.At = p.At.UTC().Truncate(time.Second)
	text, err := json.Marshal(p)
	s.files.Rotation = text
	return err
}

func (s *state) setRoots(roots []*x509.Certificate) {
	s.files.Roots = pemfile.EncodeCertificates(distinct(roots)...)
}

// trustDomain is written into the root as its organization.
func (s *state) trustDomain() string {
	for _, organization := range s.issuer.certificate.Subject.Organization {
		if identity.ValidateTrustDomain(organization) == nil {
			return organization
		}
	}
	return identity.DefaultTrustDomain
}

func without(roots []*x509.Certificate, old string) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(roots), func(c *x509.Certificate) bool { return fingerprint(c) == old })
}

// fingerprint is the SHA-256 of a certificate, in lower-case hexadecimal digits, as `openssl x509 -fingerprint -sha256` prints
// with colons.
func fingerprint(c *x509.Certificate) string {
	hash := sha256.Sum256(c.Raw)
	return hex.EncodeToString(hash[:])
}

// Status is what there is to know of a CA and its rotation.
type Status struct {
	Origin string        `json:"origin"` // where it is kept
	Given  bool          `json:"given"`  // somebody else made and rotates it
	Signer Certificate   `json:"signer"`
	Roots  []Certificate `json:"roots"`
	// LastStep was taken at LastAt; empty without a rotation under way.
	LastStep Step      `json:"lastStep,omitempty"`
	LastAt   time.Time `json:"lastAt,omitzero"`
	// NextStep may be taken from NextAt on, zero: at once; empty for a CA that was given.
	NextStep Step      `json:"nextStep,omitempty"`
	NextAt   time.Time `json:"nextAt,omitzero"`
}

// Certificate names one.
type Certificate struct {
	Subject     string    `json:"subject"`
	Fingerprint string    `json:"fingerprint"` // SHA-256, hexadecimal
	Expires     time.Time `json:"expires"`
	// Role is "signs", "next", "old" or "trusted".
	Role string `json:"role"`
}

func (s *state) status(lifetime time.Duration) Status {
	out := Status{
		Origin: s.files.Origin, Given: s.files.Given,
		Signer:   describe(s.issuer.certificate, "signs"),
		LastStep: s.progress.Step, LastAt: s.progress.At,
	}
	if !s.files.Given {
		out.NextStep, out.NextAt = s.due(lifetime)
	}
	for i, c := range s.issuer.roots {
		role := "trusted"
		switch {
		case i == 0:
			role = "signs"
		case s.next != nil && c.Equal(s.next):
			role = "next"
		case s.progress.Step == StepSign && fingerprint(c) == s.progress.Old:
			role = "old"
		}
		out.Roots = append(out.Roots, describe(c, role))
	}
	return out
}

func describe(c *x509.Certificate, role string) Certificate {
	return Certificate{Subject: c.Subject.String(), Fingerprint: fingerprint(c), Expires: c.NotAfter.UTC(), Role: role}
}
