package kubetoken

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/xds/identity"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var checkout = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "checkout"}

// reviews is the API: it answers what the test says, and counts.
type reviews struct {
	authenticationv1.TokenReviewInterface
	answer func(ctx context.Context, token string) (authentication.TokenReviewStatus, error)

	mutex sync.Mutex
	asked int
}

func (r *reviews) Create(ctx context.Context, t *authentication.TokenReview, _ metav1.CreateOptions) (*authentication.TokenReview, error) {
	if len(t.Spec.Audiences) != 1 || t.Spec.Audiences[0] != Audience {
		return nil, fmt.Errorf("asked for the audiences %q", t.Spec.Audiences)
	}
	r.mutex.Lock()
	r.asked++
	r.mutex.Unlock()
	status, err := r.answer(ctx, t.Spec.Token)
	t.Status = status
	return t, err
}

func (r *reviews) count() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.asked
}

func good() authentication.TokenReviewStatus {
	return authentication.TokenReviewStatus{
		Authenticated: true, Audiences: []string{Audience},
		User: authentication.UserInfo{
			Username: "system:serviceaccount:shop:checkout",
			Extra:    map[string]authentication.ExtraValue{extraPodName: {"checkout-0"}, extraPodUID: {"7"}, extraNodeName: {"node-1"}},
		},
	}
}

func always(s authentication.TokenReviewStatus) func(context.Context, string) (authentication.TokenReviewStatus, error) {
	return func(context.Context, string) (authentication.TokenReviewStatus, error) { return s, nil }
}

func newAuthenticator(t *testing.T, r *reviews) *Authenticator {
	t.Helper()
	a, err := New(Options{Reviews: r})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// jwt is a token that says these things of itself.
func jwt(payload string) string {
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".s"
}

func lasting(d time.Duration) string {
	return jwt(fmt.Sprintf(`{"aud":["istio-ca"],"exp":%d}`, time.Now().Add(d).Unix()))
}

func bearing(ctx context.Context, token string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*authentication.TokenReviewStatus)
		err    string // "" for accepted
		pod    identity.Pod
	}{
		{"a pod's token", func(*authentication.TokenReviewStatus) {}, "", identity.Pod{Name: "checkout-0", UID: "7", Node: "node-1"}},
		{"not bound to a pod", func(s *authentication.TokenReviewStatus) { s.User.Extra = nil }, "", identity.Pod{}},
		{"two pods are none", func(s *authentication.TokenReviewStatus) {
			s.User.Extra[extraPodName] = authentication.ExtraValue{"a", "b"}
		}, "", identity.Pod{UID: "7", Node: "node-1"}},
		{"refused", func(s *authentication.TokenReviewStatus) {
			s.Authenticated = false
			s.Error = "token has been invalidated"
		}, "token has been invalidated", identity.Pod{}},
		{"the server knows no audiences", func(s *authentication.TokenReviewStatus) { s.Audiences = nil }, "audiences []", identity.Pod{}},
		{"another audience", func(s *authentication.TokenReviewStatus) { s.Audiences = []string{"vault"} }, `["vault"]`, identity.Pod{}},
		{"a person", func(s *authentication.TokenReviewStatus) { s.User.Username = "alice" }, `"alice"`, identity.Pod{}},
		{"a node", func(s *authentication.TokenReviewStatus) { s.User.Username = "system:node:a" }, `"system:node:a"`, identity.Pod{}},
		{"half an account", func(s *authentication.TokenReviewStatus) { s.User.Username = userPrefix + "shop" }, "service account", identity.Pod{}},
		{"an account with a path", func(s *authentication.TokenReviewStatus) { s.User.Username = userPrefix + "shop:x/sa/y" }, "x/sa/y", identity.Pod{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status := good()
			c.change(&status)
			a := newAuthenticator(t, &reviews{answer: always(status)})
			id, pod, err := a.AuthenticatePod(bearing(t.Context(), lasting(time.Hour)))
			var rejected *identity.Rejected
			switch {
			case c.err == "" && (err != nil || id != checkout || pod != c.pod):
				t.Errorf("AuthenticatePod = %v, %v, %v", id, pod, err)
			case c.err != "" && (!errors.As(err, &rejected) || !strings.Contains(err.Error(), c.err)):
				t.Errorf("error %v, want a rejection with %q", err, c.err)
			}
		})
	}
}

// What a token says of itself may spare the question, and is never believed.
func TestUnasked(t *testing.T) {
	for name, token := range map[string]string{
		"no JWT": "abc", "two parts": "a.b", "no base64": "a.!.c", "no JSON": jwt("x"),
		"another audience": jwt(`{"aud":["https://kubernetes.default.svc"],"exp":99999999999}`),
		"no audience":      jwt(`{"exp":99999999999}`),
		"no expiry":        jwt(`{"aud":"istio-ca"}`),
		"absurd expiry":    jwt(`{"aud":"istio-ca","exp":1e300}`),
		"expired":          lasting(-time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			r := &reviews{answer: always(good())}
			_, err := newAuthenticator(t, r).Authenticate(bearing(t.Context(), token))
			var rejected *identity.Rejected
			if !errors.As(err, &rejected) || r.count() != 0 {
				t.Errorf("error %v after %d reviews", err, r.count())
			}
			if strings.Contains(err.Error(), token) {
				t.Error("the error holds the token")
			}
		})
	}
	if _, err := newAuthenticator(t, &reviews{}).Authenticate(t.Context()); !errors.Is(err, identity.ErrNoCredentials) {
		t.Errorf("no token: %v", err)
	}
}

// Many calls with one token are one question; its answer holds for less than a minute, and never longer than the token.
func TestOneReviewForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviews{answer: func(context.Context, string) (authentication.TokenReviewStatus, error) {
			time.Sleep(time.Second) // the bubble's
			return good(), nil
		}}
		a := newAuthenticator(t, r)
		token := lasting(time.Hour)
		ask := func(n int, ctx context.Context) {
			t.Helper()
			var group sync.WaitGroup
			for range n {
				group.Go(func() {
					if id, err := a.Authenticate(ctx); err != nil || id != checkout {
						t.Errorf("Authenticate = %v, %v", id, err)
					}
				})
			}
			group.Wait()
		}
		ask(100, bearing(t.Context(), token))
		time.Sleep(acceptedFor - 2*time.Second)
		ask(100, bearing(t.Context(), token))
		if r.count() != 1 {
			t.Errorf("%d reviews while the answer holds", r.count())
		}
		time.Sleep(2 * time.Second)
		ask(1, bearing(t.Context(), token))
		if r.count() != 2 {
			t.Errorf("%d reviews after that", r.count())
		}
		short := lasting(10 * time.Second)
		ask(1, bearing(t.Context(), short))
		time.Sleep(9 * time.Second)
		if _, err := a.Authenticate(bearing(t.Context(), short)); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("an expired token: %v", err)
		}
	})
}

// The caller that asks first may go away; those who wait with it are answered.
func TestTheFirstToAskGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviews{answer: func(ctx context.Context, _ string) (authentication.TokenReviewStatus, error) {
			select {
			case <-time.After(time.Second):
				return good(), nil
			case <-ctx.Done():
				return authentication.TokenReviewStatus{}, ctx.Err()
			}
		}}
		a := newAuthenticator(t, r)
		token := lasting(time.Hour)
		first, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := a.Authenticate(bearing(first, token)); !errors.Is(err, context.Canceled) {
				t.Errorf("the first: %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			if _, err := a.Authenticate(bearing(t.Context(), token)); err != nil {
				t.Errorf("the second: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		group.Wait()
	})
}

// A rejection holds for seconds: the API server may not have seen everything yet.
func TestRejectionsHoldShortly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := authentication.TokenReviewStatus{}
		r := &reviews{answer: func(context.Context, string) (authentication.TokenReviewStatus, error) { return status, nil }}
		a := newAuthenticator(t, r)
		ctx := bearing(t.Context(), lasting(time.Hour))
		for range 3 {
			if _, err := a.Authenticate(ctx); err == nil {
				t.Fatal("accepted")
			}
		}
		if r.count() != 1 {
			t.Errorf("%d reviews", r.count())
		}
		status = good()
		time.Sleep(rejectedFor)
		if _, err := a.Authenticate(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Without an answer nobody is let in and nobody rejected, nothing is remembered, and the API is not asked more than it
// can answer.
func TestAPIGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := lasting(time.Hour)
		gone := errors.New("connection refused, by the way your token is " + token)
		r := &reviews{answer: func(context.Context, string) (authentication.TokenReviewStatus, error) { return good(), gone }}
		a := newAuthenticator(t, r)
		for range 10 {
			_, err := a.Authenticate(bearing(t.Context(), token))
			var rejected *identity.Rejected
			if err == nil || errors.As(err, &rejected) || errors.Is(err, identity.ErrNoCredentials) {
				t.Fatalf("error %v, want undecided", err)
			}
			if strings.Contains(err.Error(), token) {
				t.Error("the error holds the token")
			}
		}
		if r.count() != failuresBefore {
			t.Errorf("%d questions to an API that is gone", r.count())
		}
		gone = nil
		time.Sleep(pause)
		if _, err := a.Authenticate(bearing(t.Context(), token)); err != nil {
			t.Errorf("the API is back: %v", err)
		}
	})
}

func TestAPISlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, most := 0, 0
		var mutex sync.Mutex
		r := &reviews{answer: func(ctx context.Context, _ string) (authentication.TokenReviewStatus, error) {
			mutex.Lock()
			open++
			most = max(most, open)
			mutex.Unlock()
			<-ctx.Done()
			mutex.Lock()
			open--
			mutex.Unlock()
			return authentication.TokenReviewStatus{}, ctx.Err()
		}}
		a := newAuthenticator(t, r)
		begun := time.Now()
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				if _, err := a.Authenticate(bearing(t.Context(), lasting(time.Hour+time.Duration(i)*time.Second))); err == nil {
					t.Error("accepted without an answer")
				}
			})
		}
		group.Wait()
		if most > atOnce || time.Since(begun) > timeout {
			t.Errorf("%d questions at once, %s until the last was told", most, time.Since(begun))
		}
	})
}

func FuzzInspect(f *testing.F) {
	f.Add(lasting(time.Hour))
	f.Add(jwt(`{"aud":null,"exp":-1}`))
	f.Fuzz(func(t *testing.T, token string) {
		now := time.Now()
		if c, rejected := inspect(token, now); rejected == nil && !c.expires.After(now) {
			t.Errorf("%q passes and has expired at %s", token, c.expires)
		}
	})
}
