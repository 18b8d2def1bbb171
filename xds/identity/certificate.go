package identity

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Certificate authenticates calls by the client certificate that the TLS handshake verified against the mesh's
// trust bundle. It looks at nothing but verified chains.
type Certificate struct {
	// TrustDomain is the only one accepted, beside its aliases: a root that several meshes share vouches for none of the others here.
	TrustDomain string
	// Aliases gives other names of this mesh's trust domain, as after a change of its name; nil is none. Who has one of them
	// is taken for the same account of TrustDomain.
	Aliases func() []string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Authenticate implements Authenticator.
func (c Certificate) Authenticate(ctx context.Context) (ID, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ID{}, ErrNoCredentials
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return ID{}, ErrNoCredentials
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	id, err := c.fromLeaf(info.State.VerifiedChains[0][0], now())
	if err != nil {
		return ID{}, &Rejected{Credential: "client certificate", Reason: err.Error()}
	}
	return id, nil
}

// fromLeaf reads the one SPIFFE id of an X.509-SVID. The handshake may be long past: the expiry is checked again
// for each call.
func (c Certificate) fromLeaf(leaf *x509.Certificate, now time.Time) (ID, error) {
	if now.After(leaf.NotAfter) {
		return ID{}, fmt.Errorf("it expired at %s; connect again with a renewed one", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	id, err := OfCertificate(leaf)
	if err != nil {
		return ID{}, err
	}
	if c.Aliases != nil && slices.Contains(c.Aliases(), id.TrustDomain) {
		id.TrustDomain = c.TrustDomain
	}
	if id.TrustDomain != c.TrustDomain {
		return ID{}, fmt.Errorf("it belongs to the trust domain %q, this mesh is %q", id.TrustDomain, c.TrustDomain)
	}
	return id, nil
}

// OfCertificate reads whose an X.509-SVID is. It verifies nothing else.
func OfCertificate(leaf *x509.Certificate) (ID, error) {
	if leaf.IsCA {
		return ID{}, fmt.Errorf("it is a CA's, not a workload's")
	}
	if len(leaf.URIs) != 1 {
		return ID{}, fmt.Errorf("it has %d URI names, a workload's has one", len(leaf.URIs))
	}
	return ParseID(leaf.URIs[0].String())
}
