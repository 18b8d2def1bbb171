package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-jose/go-jose/v4"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// KeyFile is the key's name in the controller's data folder.
const KeyFile = "token-key.pem"

// Key signs and verifies tokens (ES256: ECDSA on P-256 with SHA-256).
type Key struct {
	private *ecdsa.PrivateKey
	id      string // the JWK thumbprint (RFC 7638) of the public part
}

// OpenKey reads the key of a controller's data folder and makes folder and key when they are missing. Several
// processes may do so at the same time.
func OpenKey(dataDir string) (*Key, error) {
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	path := filepath.Join(dataDir, KeyFile)
	text, err := pemfile.Once(path, 0o600, generate)
	if err != nil {
		return nil, fmt.Errorf("token key: %w", err)
	}
	signer, err := pemfile.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("token key %s: %w", path, err)
	}
	private, ok := signer.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, fmt.Errorf("token key %s: is not an ECDSA key on P-256; remove it to have a new one made", path)
	}
	thumbprint, err := (&jose.JSONWebKey{Key: private.Public()}).Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("token key %s: %w", path, err)
	}
	return &Key{private: private, id: base64.RawURLEncoding.EncodeToString(thumbprint)}, nil
}

func generate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return pemfile.EncodeKey(key)
}
