package login

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// What a role has to allow.
const (
	Verb     = "get"
	Group    = "egress.sallyport.io"
	Resource = "auditrecords"
)

// Kubernetes asks an API server. Its client must not limit itself to few requests a second (rest.Config.QPS).
func Kubernetes(client kubernetes.Interface) Cluster { return kube{client} }

type kube struct{ client kubernetes.Interface }

func (k kube) Who(ctx context.Context, token string) (User, error) {
	answer, err := k.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return User{}, fmt.Errorf("%w: %w", ErrUnasked, err)
	case !answer.Status.Authenticated || answer.Status.User.Username == "":
		return User{}, ErrUnknown
	}
	of := answer.Status.User
	u := User{Name: of.Username, UID: of.UID, Groups: of.Groups}
	for key, values := range of.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return u, nil
}

func (k kube) May(ctx context.Context, u User, namespace string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: Verb, Group: Group, Resource: Resource},
	}}
	for key, values := range u.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[key] = values
	}
	answer, err := k.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnasked, err)
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}
