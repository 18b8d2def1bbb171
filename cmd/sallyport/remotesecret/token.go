package remotesecret

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// How long the token controller may take, and how often it is looked.
const (
	tokenWithin = 30 * time.Second
	tokenEvery  = 200 * time.Millisecond
)

// keptToken reads the token of the account's Secret, which is valid as long as that Secret is there.
func keptToken(ctx context.Context, client kubernetes.Interface, namespace, account string) (string, error) {
	name := tokenSecret(account)
	var found *corev1.Secret
	err := wait.PollUntilContextTimeout(ctx, tokenEvery, tokenWithin, true, func(ctx context.Context) (bool, error) {
		var err error
		found, err = client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(found.Data[corev1.ServiceAccountTokenKey]) > 0, err
	})
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("the Secret %s/%s is not there: without --create-account make it (type %s, annotation %s: %s), or take a token that expires, with --duration",
			namespace, name, corev1.SecretTypeServiceAccountToken, corev1.ServiceAccountNameKey, account)
	case wait.Interrupted(err) && ctx.Err() == nil:
		return "", fmt.Errorf("the Secret %s/%s has no key %q after %s: the cluster's token controller did not write it; take a token that expires, with --duration",
			namespace, name, corev1.ServiceAccountTokenKey, tokenWithin)
	case err != nil:
		return "", fmt.Errorf("the Secret %s/%s: %w", namespace, name, err)
	}
	return string(found.Data[corev1.ServiceAccountTokenKey]), nil
}

// shortToken asks for a token that is valid for a while. The API server may make that shorter.
func shortToken(ctx context.Context, client kubernetes.Interface, namespace, account string, valid time.Duration) (string, time.Time, error) {
	seconds := int64(valid.Seconds())
	issued, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, account, err)
	}
	return issued.Status.Token, issued.Status.ExpirationTimestamp.Time, nil
}
