package kubetoken

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/netcap"
)

const (
	// Audience is what tokens for the mesh's control plane are made out to; Istio's name.
	Audience = "istio-ca"

	// acceptedFor and rejectedFor are how long an answer of the API holds. With the ten seconds for which the API server
	// itself remembers one, a token outlives its pod by a minute at most. A rejection is kept shortly: the API server may
	// not have seen the pod or the account yet.
	acceptedFor = 50 * time.Second
	rejectedFor = 5 * time.Second

	// cacheSize bounds the answers that are kept, of about 300 bytes each. Rejections have a place of their own: strangers
	// with ever new tokens push nobody's good answer out.
	cacheSize  = 1 << 14
	rejectSize = 1 << 10
	// atOnce bounds the questions to the API that are open at the same time, places those that are or wait to be, and
	// callers the calls that wait for an answer.
	atOnce  = 32
	places  = 1 << 10
	callers = 1 << 11
	// timeout of one question.
	timeout = 10 * time.Second
	// After so many failures of the API in a row it is left alone for a pause.
	failuresBefore = 3
	pause          = time.Second
)

// Options configure an Authenticator.
type Options struct {
	// Reviews asks the API: clientset.AuthenticationV1().TokenReviews(). Its client must not limit itself to few requests
	// a second (rest.Config.QPS): many agents come at once after a restart.
	Reviews authenticationv1.TokenReviewInterface
	// TrustDomain of the identities; empty is identity.DefaultTrustDomain.
	TrustDomain string
	Metrics     prometheus.Registerer
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Authenticator is an identity.PodAuthenticator. Its methods may be called at the same time.
type Authenticator struct {
	options  Options
	accepted *lru.Cache[digest, answer]
	rejected *lru.Cache[digest, answer]
	flights  singleflight.Group
	turns    *turns
	callers  *netcap.Shares
	pace     *pace
	breaker  breaker
	metrics  metrics
}

// digest stands for a token: the cache holds nothing that could be presented.
type digest [sha256.Size]byte

// answer is what the API said of a token.
type answer struct {
	id       identity.ID
	pod      identity.Pod
	rejected *identity.Rejected // nil: accepted
	until    time.Time
}

// New returns an Authenticator.
func New(o Options) (*Authenticator, error) {
	if o.TrustDomain == "" {
		o.TrustDomain = identity.DefaultTrustDomain
	}
	if err := identity.ValidateTrustDomain(o.TrustDomain); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	accepted, err := lru.New[digest, answer](cacheSize)
	if err != nil {
		return nil, err
	}
	rejected, err := lru.New[digest, answer](rejectSize)
	if err != nil {
		return nil, err
	}
	pace, err := newPace()
	if err != nil {
		return nil, err
	}
	return &Authenticator{
		options: o, accepted: accepted, rejected: rejected, metrics: newMetrics(o.Metrics),
		turns: newTurns(atOnce, places), callers: netcap.NewShares(callers), pace: pace,
	}, nil
}

// Authenticate implements identity.Authenticator.
func (a *Authenticator) Authenticate(ctx context.Context) (identity.ID, error) {
	id, _, err := a.AuthenticatePod(ctx)
	return id, err
}

// AuthenticatePod implements identity.PodAuthenticator with the call's bearer token. An *identity.Rejected is the API's
// no; any other error beside identity.ErrNoCredentials means that the API gave no answer.
func (a *Authenticator) AuthenticatePod(ctx context.Context) (identity.ID, identity.Pod, error) {
	token, err := identity.BearerToken(ctx)
	if err != nil {
		return identity.ID{}, identity.Pod{}, err
	}
	found, err := a.ask(ctx, token)
	switch {
	case err != nil:
		return identity.ID{}, identity.Pod{}, err
	case found.rejected != nil:
		return identity.ID{}, identity.Pod{}, found.rejected
	}
	return found.id, found.pod, nil
}

// ask answers from the cache, or has the API asked.
func (a *Authenticator) ask(ctx context.Context, token string) (answer, error) {
	now := a.options.Now()
	claims, rejected := inspect(token, now)
	if rejected != nil {
		a.metrics.answered.WithLabelValues("unasked").Inc()
		return answer{rejected: rejected}, nil
	}
	of := digest(sha256.Sum256([]byte(token)))
	if kept, ok := a.kept(of, now); ok {
		a.metrics.answered.WithLabelValues("cache").Inc()
		return kept, nil
	}
	return a.wait(ctx, token, of, claims)
}

// errPace says that an address had too many tokens asked about that nobody knows.
var errPace = errors.New("many tokens of this address were rejected; no others of it are asked about for a moment")

// wait has the API asked, once for all that wait for the same token.
func (a *Authenticator) wait(ctx context.Context, token string, of digest, claims claims) (answer, error) {
	from := caller(ctx)
	if !a.pace.left(from) {
		return answer{}, errPace
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	back, ok := a.callers.Take(from, 1, func() { cancel(errBusy) })
	if !ok {
		return answer{}, errBusy
	}
	defer back()
	result := a.flights.DoChan(string(of[:]), func() (any, error) {
		// Who waits for the answer may go away: it is asked for all of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		got, err := a.review(ctx, token, claims)
		if err == nil {
			a.keep(of, got)
		}
		return got, err
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return answer{}, r.Err
		}
		a.metrics.answered.WithLabelValues("review").Inc()
		got := r.Val.(answer)
		if got.rejected != nil {
			a.pace.rejected(from)
		}
		return got, nil
	case <-ctx.Done():
		return answer{}, fmt.Errorf("no answer of the API server yet: %w", context.Cause(ctx))
	}
}

func (a *Authenticator) kept(of digest, now time.Time) (answer, bool) {
	for _, answers := range []*lru.Cache[digest, answer]{a.accepted, a.rejected} {
		if found, ok := answers.Get(of); ok && now.Before(found.until) {
			return found, true
		}
	}
	return answer{}, false
}

func (a *Authenticator) keep(of digest, got answer) {
	if got.rejected != nil {
		a.accepted.Remove(of)
		a.rejected.Add(of, got)
		return
	}
	a.accepted.Add(of, got)
}
