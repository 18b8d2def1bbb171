package kubetoken

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/peer"
	authentication "k8s.io/api/authentication/v1"

	"github.com/sallyport/sallyport/xds/identity"
)

// at is a call from an address.
func at(ctx context.Context, address string) context.Context {
	return peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 4711}})
}

// TestStrangersInFront: a pod's new token is asked about soon, however many made-up ones of other addresses were there before it.
func TestStrangersInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := lasting(2 * time.Hour)
		r := &reviews{answer: func(ctx context.Context, token string) (authentication.TokenReviewStatus, error) {
			select {
			case <-time.After(time.Second): // a slow API server
			case <-ctx.Done():
				return authentication.TokenReviewStatus{}, ctx.Err()
			}
			if token == own {
				return good(), nil
			}
			return authentication.TokenReviewStatus{}, nil
		}}
		a := newAuthenticator(t, r)
		var group sync.WaitGroup
		for i := range 5000 {
			group.Go(func() {
				token := jwt(fmt.Sprintf(`{"aud":"istio-ca","exp":%d,"n":%d}`, time.Now().Add(time.Hour).Unix(), i))
				if _, err := a.Authenticate(bearing(at(t.Context(), fmt.Sprintf("10.0.0.%d", 1+i%3)), token)); err == nil {
					t.Error("a token that was made up is good")
				}
			})
		}
		synctest.Wait()
		begun := time.Now()
		if _, err := a.Authenticate(bearing(at(t.Context(), "10.0.0.9"), own)); err != nil || time.Since(begun) > 3*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		group.Wait()
	})
}

// TestWaitingCalls: so many calls wait for an answer and no more, also those that come with one token.
func TestWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviews{answer: func(ctx context.Context, _ string) (authentication.TokenReviewStatus, error) {
			<-ctx.Done()
			return authentication.TokenReviewStatus{}, ctx.Err()
		}}
		a := newAuthenticator(t, r)
		token := lasting(time.Hour)
		var waiting atomic.Int32
		var group sync.WaitGroup
		for range 3 * callers {
			group.Go(func() {
				waiting.Add(1)
				_, err := a.Authenticate(bearing(at(t.Context(), "10.0.0.1"), token))
				waiting.Add(-1)
				if err == nil {
					t.Error("accepted without an answer")
				}
			})
		}
		synctest.Wait()
		if n := waiting.Load(); n > callers {
			t.Errorf("%d calls wait", n)
		}
		group.Wait()
	})
}

// TestRejectedPace: who has many tokens asked about that nobody knows is held back, and nobody else is.
func TestRejectedPace(t *testing.T) {
	r := &reviews{answer: func(_ context.Context, token string) (authentication.TokenReviewStatus, error) {
		if token == lasting(2*time.Hour) {
			return good(), nil
		}
		return authentication.TokenReviewStatus{}, nil
	}}
	a := newAuthenticator(t, r)
	held := 0
	for i := range 3 * rejectedAtOnce {
		token := jwt(fmt.Sprintf(`{"aud":"istio-ca","exp":%d,"n":%d}`, time.Now().Add(time.Hour).Unix(), i))
		_, err := a.Authenticate(bearing(at(t.Context(), "10.0.0.1"), token))
		var rejected *identity.Rejected
		if !errors.As(err, &rejected) {
			held++
		}
	}
	if held == 0 || r.count() >= 3*rejectedAtOnce {
		t.Errorf("%d were held back, %d were asked about", held, r.count())
	}
	if _, err := a.Authenticate(bearing(at(t.Context(), "10.0.0.2"), lasting(time.Hour))); err == nil || errors.Is(err, errPace) {
		t.Errorf("another address: %v", err)
	}
}

// TestTurns: turns that are over, or not waited for any longer, are others'.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 4)
		leave, err := turns.enter(at(t.Context(), "10.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		var group sync.WaitGroup
		wait := func(ctx context.Context, address, name string) {
			group.Go(func() {
				leave, err := turns.enter(at(ctx, address))
				if err != nil {
					order = append(order, name+" gave up")
					return
				}
				order = append(order, name)
				leave()
			})
			synctest.Wait()
		}
		going, gone := context.WithCancel(t.Context())
		wait(going, "10.0.0.1", "one")
		wait(t.Context(), "10.0.0.1", "two")
		wait(t.Context(), "10.0.0.1", "three")
		wait(t.Context(), "10.0.0.1", "four") // there are four places
		wait(t.Context(), "10.0.0.2", "other")
		gone()
		synctest.Wait()
		leave()
		group.Wait()
		if got := fmt.Sprint(order); got != "[four gave up three gave up one gave up two other]" {
			t.Error(got)
		}
		if turns.free != 1 || len(turns.order)+len(turns.waits) != 0 {
			t.Errorf("%d free, %v wait", turns.free, turns.order)
		}
	})
}
