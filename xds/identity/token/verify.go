package token

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sallyport/sallyport/xds/identity"
)

// Verifier accepts the tokens that its Key signed. It is an identity.Authenticator.
type Verifier struct {
	key         *Key
	trustDomain string
	now         func() time.Time
}

// NewVerifier returns a Verifier whose identities are of trustDomain; now is the clock, nil is time.Now.
func NewVerifier(key *Key, trustDomain string, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{key: key, trustDomain: trustDomain, now: now}
}

// Authenticate implements identity.Authenticator with the call's bearer token.
func (v *Verifier) Authenticate(ctx context.Context) (identity.ID, error) {
	raw, err := identity.BearerToken(ctx)
	if err != nil {
		return identity.ID{}, err
	}
	id, err := v.Verify(raw)
	if err != nil {
		return identity.ID{}, &identity.Rejected{Credential: "token", Reason: err.Error()}
	}
	return id, nil
}

// Verify returns the identity that a token proves now. No error holds the token or a part of it.
func (v *Verifier) Verify(raw string) (identity.ID, error) {
	// One algorithm, ours: neither "none" nor an HMAC keyed with our public key gets further than this.
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return identity.ID{}, errors.New("it is not an ES256-signed JWT")
	}
	var standard jwt.Claims
	var private kubernetesClaims
	if err := parsed.Claims(v.key.private.Public(), &standard, &private); err != nil {
		return identity.ID{}, errors.New("its signature is not of this controller's key")
	}
	if err := v.validate(standard); err != nil {
		return identity.ID{}, err
	}
	return v.account(standard.Subject, private)
}

func (v *Verifier) validate(c jwt.Claims) error {
	now := v.now()
	if c.Expiry == nil { // jwt.Claims.Validate would let it live for ever
		return errors.New("it has no expiry")
	}
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: Issuer, AnyAudience: jwt.Audience{Audience}, Time: now}, 0)
	switch {
	case err == nil && !now.Before(c.Expiry.Time()), errors.Is(err, jwt.ErrExpired):
		return fmt.Errorf("it expired at %s; a new one is needed", c.Expiry.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrInvalidAudience):
		return fmt.Errorf("its audience is %q, want %q", []string(c.Audience), Audience)
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return fmt.Errorf("its issuer is %q, want %q", c.Issuer, Issuer)
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("it is not valid yet; compare the clocks")
	case err != nil:
		return errors.New("its claims are not valid")
	}
	return nil
}

// account reads the subject, with which the private claims have to agree.
func (v *Verifier) account(subject string, private kubernetesClaims) (identity.ID, error) {
	account, ok := strings.CutPrefix(subject, subjectPrefix)
	namespace, name, two := strings.Cut(account, ":")
	if !ok || !two {
		return identity.ID{}, fmt.Errorf("its subject is %q, want %sNAMESPACE:SERVICEACCOUNT", subject, subjectPrefix)
	}
	if private.Kubernetes.Namespace != namespace || private.Kubernetes.ServiceAccount.Name != name {
		return identity.ID{}, errors.New("its subject and its kubernetes.io claim name different service accounts")
	}
	id := identity.ID{TrustDomain: v.trustDomain, Namespace: namespace, ServiceAccount: name}
	if err := id.Validate(); err != nil {
		return identity.ID{}, err
	}
	return id, nil
}
