package token

import (
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sallyport/sallyport/xds/identity"
)

const (
	// Audience is what a token for the mesh's control plane is made out to; Istio's name.
	Audience = "istio-ca"
	// Issuer names tokens of the controller's own key.
	Issuer = "sallyport"

	// MinTTL is the shortest lifetime of a token.
	MinTTL = time.Second
	// MaxTTL is the longest.
	MaxTTL = 365 * 24 * time.Hour

	subjectPrefix = "system:serviceaccount:"
)

// kubernetesClaims is the private claim "kubernetes.io" of projected tokens.
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#schema-for-service-account-private-claims
type kubernetesClaims struct {
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// Issue returns a token for a service account, valid from now for ttl (MinTTL to MaxTTL, whole seconds), and the
// moment it expires.
func (k *Key) Issue(namespace, serviceAccount string, now time.Time, ttl time.Duration) (token string, expires time.Time, err error) {
	if err := identity.ValidateAccount(namespace, serviceAccount); err != nil {
		return "", time.Time{}, err
	}
	if ttl < MinTTL || ttl > MaxTTL {
		return "", time.Time{}, fmt.Errorf("lifetime %s: must be between %s and %s", ttl, MinTTL, MaxTTL)
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", k.id)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k.private}, options)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("token signer: %w", err)
	}
	now = now.Truncate(time.Second)
	expires = now.Add(ttl.Truncate(time.Second))
	standard := jwt.Claims{
		Issuer:    Issuer,
		Audience:  jwt.Audience{Audience},
		Subject:   subjectPrefix + namespace + ":" + serviceAccount,
		IssuedAt:  jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now),
		Expiry:    jwt.NewNumericDate(expires),
	}
	var private kubernetesClaims
	private.Kubernetes.Namespace = namespace
	private.Kubernetes.ServiceAccount.Name = serviceAccount
	token, err = jwt.Signed(signer).Claims(standard).Claims(private).Serialize()
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign token: %w", err)
	}
	return token, expires, nil
}
