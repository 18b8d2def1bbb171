package identity

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultTrustDomain is the trust domain of a mesh that names none; Istio's default.
const DefaultTrustDomain = "cluster.local"

const (
	scheme = "spiffe://"
	// maxIDLength is the length that every SPIFFE implementation has to support, in bytes.
	// https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md#23-maximum-spiffe-id-length
	maxIDLength = 2048
	// maxTrustDomainLength is the length of a host part, in bytes (same page, 2.1).
	maxTrustDomainLength = 255
)

// ID is the identity of a workload: the service account it runs as. The zero ID is nobody.
type ID struct {
	TrustDomain    string
	Namespace      string
	ServiceAccount string
}

// ParseID reads spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT. It takes the canonical spelling only (no
// escapes, no upper case, no further path, no query), so that two equal identities are equal strings.
func ParseID(s string) (ID, error) {
	if len(s) > maxIDLength {
		return ID{}, fmt.Errorf("SPIFFE id of %d bytes: the limit is %d", len(s), maxIDLength)
	}
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return ID{}, fmt.Errorf("SPIFFE id %q: does not begin with %s", s, scheme)
	}
	part := strings.Split(rest, "/")
	if len(part) != 5 || part[1] != "ns" || part[3] != "sa" {
		return ID{}, fmt.Errorf("SPIFFE id %q: want %sTRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT", s, scheme)
	}
	id := ID{TrustDomain: part[0], Namespace: part[2], ServiceAccount: part[4]}
	if err := id.Validate(); err != nil {
		return ID{}, fmt.Errorf("SPIFFE id %q: %w", s, err)
	}
	return id, nil
}

// String is the canonical SPIFFE id.
func (id ID) String() string {
	return scheme + id.TrustDomain + "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount
}

// URI is the id as an X.509 subject alternative name wants it.
func (id ID) URI() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: id.TrustDomain, Path: "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount}
}

// Validate reports the first part of the id that is not a name of its kind.
func (id ID) Validate() error {
	if err := ValidateTrustDomain(id.TrustDomain); err != nil {
		return err
	}
	return ValidateAccount(id.Namespace, id.ServiceAccount)
}

// ValidateAccount checks a Kubernetes namespace (an RFC 1123 label) and service account (an RFC 1123 subdomain).
func ValidateAccount(namespace, serviceAccount string) error {
	if bad := validation.IsDNS1123Label(namespace); len(bad) > 0 {
		return fmt.Errorf("namespace %q: %s", namespace, bad[0])
	}
	if bad := validation.IsDNS1123Subdomain(serviceAccount); len(bad) > 0 {
		return fmt.Errorf("service account %q: %s", serviceAccount, bad[0])
	}
	return nil
}

// ValidateTrustDomain checks a trust domain's characters and length (SPIFFE-ID 2.1).
func ValidateTrustDomain(s string) error {
	if s == "" {
		return errors.New("trust domain is empty")
	}
	if len(s) > maxTrustDomainLength {
		return fmt.Errorf("trust domain of %d bytes: the limit is %d", len(s), maxTrustDomainLength)
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
		default:
			return fmt.Errorf("trust domain %q: %q is not one of a-z, 0-9, '.', '-', '_'", s, r)
		}
	}
	return nil
}
