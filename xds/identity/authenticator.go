package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/metadata"
)

// Authenticator finds out who makes the call that ctx belongs to, from the call's metadata and connection.
//
// Its error is ErrNoCredentials when the call carries nothing of the kind it understands, a *Rejected when it does
// but the credential is not good, and anything else when it could not decide (its own backend is away): the caller
// may then try again.
type Authenticator interface {
	Authenticate(ctx context.Context) (ID, error)
}

// Pod is the pod that a token is bound to; the zero Pod is none that is known.
type Pod struct {
	Name, UID string
	Node      string // where it was scheduled when the token was made; empty when the API does not say
}

// PodAuthenticator is an Authenticator whose credentials may be bound to one pod of the service account. The Guard
// and FirstOf prefer AuthenticatePod where there is one.
type PodAuthenticator interface {
	Authenticator
	// AuthenticatePod is Authenticate that also tells the pod, the zero Pod where the credential names none.
	AuthenticatePod(ctx context.Context) (ID, Pod, error)
}

// Authenticate asks for all that an Authenticator can tell.
func Authenticate(ctx context.Context, a Authenticator) (ID, Pod, error) {
	if p, ok := a.(PodAuthenticator); ok {
		return p.AuthenticatePod(ctx)
	}
	id, err := a.Authenticate(ctx)
	return id, Pod{}, err
}

// ErrNoCredentials says that a call carries no credential of the kind that an Authenticator understands.
var ErrNoCredentials = errors.New("no credentials")

// Rejected says why a credential is not good. Reason never holds the credential itself.
type Rejected struct {
	Credential string // "token" or "client certificate"
	Reason     string
}

func (r *Rejected) Error() string { return r.Credential + " rejected: " + r.Reason }

// FirstOf asks each Authenticator in turn and takes the first identity. A call whose certificate is good but whose
// token has expired is thus let in, and the other way round. Without an identity the answer is the first
// undecided one, else every rejection, else ErrNoCredentials.
func FirstOf(authenticators ...Authenticator) Authenticator { return firstOf(authenticators) }

type firstOf []Authenticator

func (f firstOf) Authenticate(ctx context.Context) (ID, error) {
	id, _, err := f.AuthenticatePod(ctx)
	return id, err
}

func (f firstOf) AuthenticatePod(ctx context.Context) (ID, Pod, error) {
	var rejections []string
	var credentials []string
	var undecided error
	for _, a := range f {
		id, pod, err := Authenticate(ctx, a)
		var rejected *Rejected
		switch {
		case err == nil:
			return id, pod, nil
		case errors.Is(err, ErrNoCredentials):
		case errors.As(err, &rejected):
			credentials = append(credentials, rejected.Credential)
			rejections = append(rejections, rejected.Reason)
		case undecided == nil:
			undecided = err
		}
	}
	if undecided != nil {
		return ID{}, Pod{}, undecided
	}
	if len(rejections) > 0 {
		return ID{}, Pod{}, &Rejected{Credential: strings.Join(credentials, " and "), Reason: strings.Join(rejections, "; ")}
	}
	return ID{}, Pod{}, ErrNoCredentials
}

// maxTokenLength bounds what is parsed before anything is verified, in bytes. Kubernetes' projected tokens have
// about 1 KiB.
const maxTokenLength = 16 << 10

// BearerToken returns the token of the metadata "authorization: Bearer TOKEN" (RFC 6750, 2.1), ErrNoCredentials
// when there is none.
func BearerToken(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) == 0 {
		return "", ErrNoCredentials
	}
	if len(values) > 1 {
		return "", &Rejected{Credential: "token", Reason: fmt.Sprintf("%d authorization headers, want one", len(values))}
	}
	kind, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(kind, "bearer"):
		return "", &Rejected{Credential: "token", Reason: `the authorization header does not begin with "Bearer "`}
	case token == "":
		return "", &Rejected{Credential: "token", Reason: "it is empty"}
	case len(token) > maxTokenLength:
		return "", &Rejected{Credential: "token", Reason: fmt.Sprintf("it has %d bytes, the limit is %d", len(token), maxTokenLength)}
	}
	return token, nil
}
