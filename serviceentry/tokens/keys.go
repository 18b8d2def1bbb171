package tokens

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	jose "github.com/go-jose/go-jose/v4"
)

// NoKeys is a set by which no token is good. Proxies take none that is empty, so it is of a point of P-256 that was found by a hash: nobody
// knows a private key for it.
var NoKeys = sync.OnceValue(func() string {
	for i := byte(0); ; i++ {
		x := sha256.Sum256([]byte{'n', 'o', ' ', 'k', 'e', 'y', i})
		point, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), uncompressed(x[:]))
		if err != nil {
			continue
		}
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: point, KeyID: "none", Algorithm: "ES256", Use: "sig"}}})
		if err != nil {
			panic("tokens: a public key does not marshal: " + err.Error())
		}
		return string(text)
	}
})

// uncompressed is the point with that x (SEC 1 section 2.3.3), or nothing.
func uncompressed(x []byte) []byte {
	px, py := elliptic.UnmarshalCompressed(elliptic.P256(), append([]byte{2}, x...))
	if px == nil {
		return nil
	}
	return append(append([]byte{4}, x...), py.FillBytes(make([]byte, 32))...)
}

// CheckKeys says what is wrong with a set of keys. One that holds something else beside keys that can be used is good.
func CheckKeys(text string) error {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	first := errors.New("it holds no keys")
	for i, raw := range set.Keys {
		err := checkKey(raw)
		if err == nil {
			return nil
		}
		if i == 0 {
			first = fmt.Errorf("keys[0]: %w", err)
		}
	}
	return first
}

// smallestRSA is how many bits a key needs to be one at all.
const smallestRSA = 1024

// checkKey says why no proxy verifies tokens by a key.
func checkKey(raw []byte) error {
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(raw); err != nil {
		return err
	}
	var algs []string
	good := key.Valid()
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		algs, good = []string{"RS256", "RS384", "RS512", "PS"}, good && k.N.BitLen() >= smallestRSA
	case *ecdsa.PublicKey:
		algs = []string{"ES"}
	case ed25519.PublicKey:
		algs = []string{"EdDSA"}
	case []byte:
		algs, good = []string{"HS"}, len(k) > 0
	default:
		return errors.New("it is no public key")
	}
	if !good {
		return errors.New("it is no valid key")
	}
	for _, a := range algs {
		if key.Algorithm == "" || strings.HasPrefix(key.Algorithm, a) {
			return nil
		}
	}
	return fmt.Errorf("its algorithm %q signs no tokens", key.Algorithm)
}
