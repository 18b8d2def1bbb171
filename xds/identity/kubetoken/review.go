package kubetoken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/xds/identity"
)

// What the API tells beside the user's name of a token that is bound to a pod.
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens
const (
	extraPodName  = "authentication.kubernetes.io/pod-name"
	extraPodUID   = "authentication.kubernetes.io/pod-uid"
	extraNodeName = "authentication.kubernetes.io/node-name"

	userPrefix = "system:serviceaccount:"
)

// review asks the API. An error means that there is no answer.
func (a *Authenticator) review(ctx context.Context, token string, c claims) (answer, error) {
	leave, err := a.turns.enter(ctx)
	if err != nil {
		a.metrics.reviews.WithLabelValues("failed").Inc()
		return answer{}, err
	}
	defer leave()
	if err := a.breaker.check(a.options.Now()); err != nil {
		a.metrics.reviews.WithLabelValues("failed").Inc()
		return answer{}, err
	}
	begun := a.options.Now()
	got, err := a.options.Reviews.Create(ctx, &authentication.TokenReview{
		Spec: authentication.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	now := a.options.Now()
	a.metrics.duration.Observe(now.Sub(begun).Seconds())
	if err != nil {
		err = fmt.Errorf("token review: %w", withoutToken(err, token))
		a.breaker.failed(now, err)
		a.metrics.reviews.WithLabelValues("failed").Inc()
		return answer{}, err
	}
	a.breaker.succeeded()
	id, pod, reason := a.read(got.Status)
	if reason != "" {
		a.metrics.reviews.WithLabelValues("rejected").Inc()
		return answer{rejected: rejection(strings.ReplaceAll(reason, token, "…")), until: now.Add(rejectedFor)}, nil
	}
	a.metrics.reviews.WithLabelValues("accepted").Inc()
	until := now.Add(acceptedFor)
	if !c.expires.IsZero() && c.expires.Before(until) {
		until = c.expires
	}
	return answer{id: id, pod: pod, until: until}, nil
}

// read takes the identity from the API's answer, or says why there is none.
func (a *Authenticator) read(s authentication.TokenReviewStatus) (id identity.ID, pod identity.Pod, reason string) {
	if !s.Authenticated {
		reason := "Kubernetes does not accept it for the audience " + Audience
		if s.Error != "" {
			reason += ": " + s.Error
		}
		return id, pod, reason
	}
	// A server that knows no audiences accepts tokens which are meant for others.
	if !slices.Contains(s.Audiences, Audience) {
		return id, pod, fmt.Sprintf("Kubernetes accepts it for the audiences %q, want %q", s.Audiences, Audience)
	}
	account, ok := strings.CutPrefix(s.User.Username, userPrefix)
	namespace, name, two := strings.Cut(account, ":")
	if !ok || !two {
		return id, pod, fmt.Sprintf("it belongs to the user %q, want a service account", s.User.Username)
	}
	id = identity.ID{TrustDomain: a.options.TrustDomain, Namespace: namespace, ServiceAccount: name}
	if err := id.Validate(); err != nil {
		return identity.ID{}, pod, err.Error()
	}
	extra := s.User.Extra
	return id, identity.Pod{Name: only(extra[extraPodName]), UID: only(extra[extraPodUID]), Node: only(extra[extraNodeName])}, ""
}

// only returns the value of a list that has one.
func only(values authentication.ExtraValue) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

func rejection(reason string) *identity.Rejected {
	return &identity.Rejected{Credential: "token", Reason: reason}
}

// withoutToken keeps a token out of messages, whatever the API server puts into its own.
func withoutToken(err error, token string) error {
	if !strings.Contains(err.Error(), token) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), token, "…"))
}
