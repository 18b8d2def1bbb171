package tokens

import (
	"encoding/json"
	"fmt"
)

// MostSetBytes is how many bytes of keys a set has that is fetched: some eighty of RSA with 4,096 bits.
const MostSetBytes = 64 << 10

// verifies are the members of a key by which proxies verify tokens (RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2). The rest, as chains of certificates, they do not look at.
var verifies = []string{"kty", "use", "key_ops", "alg", "kid", "crv", "x", "y", "n", "e", "k"}

// ReadKeys says what of a fetched set is kept: the keys, with what tokens are verified by. It is an error where none can be used, or they are too many.
func ReadKeys(text string) (string, error) {
	if err := CheckKeys(text); err != nil {
		return "", err
	}
	var set struct {
		Keys []map[string]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return "", fmt.Errorf("a key is no object: %w", err)
	}
	for i, key := range set.Keys {
		reduced := map[string]json.RawMessage{}
		for _, name := range verifies {
			if value, has := key[name]; has {
				reduced[name] = value
			}
		}
		set.Keys[i] = reduced
	}
	out, err := json.Marshal(set)
	if err != nil {
		return "", err
	}
	if len(out) > MostSetBytes {
		return "", fmt.Errorf("its keys have %d bytes; more than %d are not taken", len(out), MostSetBytes)
	}
	return string(out), nil
}
