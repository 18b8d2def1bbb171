package kubeca

import (
	"context"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/sallyport/sallyport/xds/identity/ca"
)

const (
	// GivenSecret holds a CA that somebody else made; Istio's name.
	GivenSecret = "cacerts"
	// OwnSecret holds the CA that the controllers made; Istio's name.
	OwnSecret = "istio-ca-secret"

	// ownType is what Istio writes there: either finds the other's.
	ownType = "istio.io/ca-root"

	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "sallyport"
)

// Store is the CA of one namespace. It is a ca.Store.
type Store struct {
	secrets   typed.SecretInterface
	namespace string
}

var _ ca.Store = (*Store)(nil)

// NewStore returns the Store of the control plane's namespace: client is clientset.CoreV1().
func NewStore(client typed.SecretsGetter, namespace string) *Store {
	return &Store{secrets: client.Secrets(namespace), namespace: namespace}
}

// Load implements ca.Store.
func (s *Store) Load(ctx context.Context) (ca.Files, error) {
	secret, err := s.secrets.Get(ctx, GivenSecret, metav1.GetOptions{})
	if err == nil {
		return readGiven(s.origin(GivenSecret), secret), nil
	}
	if !apierrors.IsNotFound(err) {
		return ca.Files{}, fmt.Errorf("%s: %w", s.origin(GivenSecret), err)
	}
	secret, err = s.secrets.Get(ctx, OwnSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ca.Files{}, fmt.Errorf("%s: %w", s.origin(OwnSecret), fs.ErrNotExist)
	}
	if err != nil {
		return ca.Files{}, fmt.Errorf("%s: %w", s.origin(OwnSecret), err)
	}
	f := read(s.origin(OwnSecret), secret)
	f.Version = secret.ResourceVersion
	return f, nil
}

// Save implements ca.Store. What others put into the Secret beside the CA stays there.
func (s *Store) Save(ctx context.Context, f ca.Files) error {
	origin := s.origin(OwnSecret)
	if f.Given {
		return &ca.GivenError{Origin: f.Origin}
	}
	if f.Version == "" {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: OwnSecret, Namespace: s.namespace, Labels: map[string]string{labelManagedBy: managedBy}},
			Type:       ownType,
		}
		fill(secret, f)
		_, err := s.secrets.Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s: %w", origin, ca.ErrConflict)
		}
		return wrap(origin, err)
	}
	secret, err := s.secrets.Get(ctx, OwnSecret, metav1.GetOptions{})
	if err != nil {
		return wrap(origin, err)
	}
	if secret.ResourceVersion != f.Version {
		return fmt.Errorf("%s: %w", origin, ca.ErrConflict)
	}
	fill(secret, f)
	_, err = s.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%s: %w", origin, ca.ErrConflict)
	}
	return wrap(origin, err)
}

func (s *Store) origin(name string) string { return "Secret " + s.namespace + "/" + name }

func wrap(origin string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", origin, err)
}
