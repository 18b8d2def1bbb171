package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/metadata"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func openKey(t testing.TB) *Key {
	t.Helper()
	key, err := OpenKey(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func TestIssueAndVerify(t *testing.T) {
	key := openKey(t)
	raw, expires, err := key.Issue("shop", "checkout", noon, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if !expires.Equal(noon.Add(time.Hour)) {
		t.Errorf("expires %s", expires)
	}
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+raw))
	id, err := NewVerifier(key, "example.org", at(noon)).Authenticate(ctx)
	if err != nil || id.String() != "spiffe://example.org/ns/shop/sa/checkout" {
		t.Errorf("Authenticate = %s, %v", id, err)
	}
	if _, err := NewVerifier(key, "example.org", at(noon)).Authenticate(t.Context()); !errors.Is(err, identity.ErrNoCredentials) {
		t.Errorf("without a token: %v", err)
	}
}

// The claims are those that readers of Kubernetes' projected tokens look for.
func TestClaims(t *testing.T) {
	raw, _, err := openKey(t).Issue("shop", "checkout", noon, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(payload, &got); err != nil {
		t.Fatal(err)
	}
	const expected = `{"iss":"sallyport","aud":["istio-ca"],"sub":"system:serviceaccount:shop:checkout",
		"iat":1777636800,"nbf":1777636800,"exp":1777640400,
		"kubernetes.io":{"namespace":"shop","serviceaccount":{"name":"checkout"}}}`
	if err := json.Unmarshal([]byte(expected), &want); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	// A single audience may be written as a string (RFC 7519, 4.1.3).
	if s := strings.Replace(string(a), `"aud":"istio-ca"`, `"aud":["istio-ca"]`, 1); s != string(b) {
		t.Errorf("claims %s\nwant   %s", a, b)
	}
}

func TestIssueRefuses(t *testing.T) {
	key := openKey(t)
	for _, c := range []struct {
		namespace, account string
		ttl                time.Duration
	}{
		{"Shop", "checkout", time.Hour}, {"shop:x", "y", time.Hour}, {"shop", "a:b", time.Hour}, {"", "a", time.Hour},
		{"shop", "", time.Hour}, {"shop", "checkout", 0}, {"shop", "checkout", -time.Hour}, {"shop", "checkout", MaxTTL + 1},
	} {
		if _, _, err := key.Issue(c.namespace, c.account, noon, c.ttl); err == nil {
			t.Errorf("Issue(%q, %q, %s) succeeded", c.namespace, c.account, c.ttl)
		}
	}
}

// forge signs whatever claims it is given.
func forge(t testing.TB, algorithm jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func claims(change func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": Issuer, "aud": []string{Audience}, "sub": "system:serviceaccount:shop:checkout",
		"iat": noon.Unix(), "nbf": noon.Unix(), "exp": noon.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{"namespace": "shop", "serviceaccount": map[string]any{"name": "checkout"}},
	}
	change(c)
	return c
}

func TestVerifyRefuses(t *testing.T) {
	key, other := openKey(t), openKey(t)
	public, err := pemPublic(key)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name string, value any) string {
		return forge(t, jose.ES256, key.private, claims(func(c map[string]any) {
			if value == nil {
				delete(c, name)
			} else {
				c[name] = value
			}
		}))
	}
	good := with("iss", Issuer)
	part := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	payload, _ := json.Marshal(claims(func(map[string]any) {}))
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, token, err string }{
		{"empty", "", "not an ES256"},
		{"no JWT", "abc", "not an ES256"},
		{"alg none", encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + ".", "not an ES256"},
		{"alg None, with our signature", encode([]byte(`{"alg":"None"}`)) + "." + part[1] + "." + part[2], "not an ES256"},
		{"HMAC keyed with the public key", forge(t, jose.HS256, public, claims(func(map[string]any) {})), "not an ES256"},
		{"ES384", forge(t, jose.ES384, p384, claims(func(map[string]any) {})), "not an ES256"},
		{"another key", forge(t, jose.ES256, other.private, claims(func(map[string]any) {})), "signature"},
		{"another key with its JWK in the header", forgeEmbedded(t, other), "signature"},
		{"changed payload", part[0] + "." + encode([]byte(strings.Replace(string(payload), "checkout", "admin", 2))) + "." + part[2], "signature"},
		{"no signature", part[0] + "." + part[1] + ".", "signature"},
		{"JSON serialisation", `{"payload":"` + part[1] + `","protected":"` + part[0] + `","signature":"` + part[2] + `"}`, "not an ES256"},
		{"expired", with("exp", noon.Unix()), "expired at 2026-05-01T12:00:00Z"},
		{"no expiry", with("exp", nil), "no expiry"},
		{"not yet", with("nbf", noon.Add(time.Minute).Unix()), "not valid yet"},
		{"issued in the future", with("iat", noon.Add(time.Minute).Unix()), "not valid yet"},
		{"another audience", with("aud", []string{"https://kubernetes.default.svc"}), "kubernetes.default.svc"},
		{"no audience", with("aud", nil), "audience"},
		{"another issuer", with("iss", "somebody"), `"somebody"`},
		{"a user's subject", with("sub", "admin"), `"admin"`},
		{"short subject", with("sub", "system:serviceaccount:shop"), "NAMESPACE:SERVICEACCOUNT"},
		{"subject and claim disagree", with("sub", "system:serviceaccount:shop:admin"), "different service accounts"},
		{"no kubernetes.io", with("kubernetes.io", nil), "different service accounts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, err := NewVerifier(key, "cluster.local", at(noon)).Verify(c.token)
			if err == nil {
				t.Fatalf("Verify = %s", id)
			}
			if !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %q, want %q", err, c.err)
			}
			if c.token != "" && strings.Contains(err.Error(), c.token) {
				t.Errorf("the token is in the error: %v", err)
			}
		})
	}
	if _, err := NewVerifier(key, "cluster.local", at(noon)).Verify(good); err != nil {
		t.Errorf("the unchanged token: %v", err)
	}
}

func forgeEmbedded(t *testing.T, key *Key) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key.private}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims(func(map[string]any) {})).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func pemPublic(k *Key) ([]byte, error) {
	return (&jose.JSONWebKey{Key: k.private.Public()}).MarshalJSON()
}

// However many processes start on an empty folder, they sign with one key.
func TestOpenKeyConcurrently(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	ids := make([]string, 16)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			if key, err := OpenKey(data); err != nil {
				t.Error(err)
			} else {
				ids[i] = key.id
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("two keys: %s and %s", ids[0], id)
		}
	}
	if info, err := os.Stat(filepath.Join(data, KeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if left, _ := os.ReadDir(data); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOpenKeyRefuses(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pemfile.EncodeKey(p384)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"empty": nil, "garbage": []byte("s3cr3t"), "P-384": other} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			if err := os.WriteFile(filepath.Join(data, KeyFile), content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := OpenKey(data)
			if err == nil || !strings.Contains(err.Error(), KeyFile) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// FuzzVerify holds that nothing but what the key signed is accepted, whatever it looks like.
func FuzzVerify(f *testing.F) {
	key := openKey(f)
	good, _, err := key.Issue("shop", "checkout", noon, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("..")
	part := strings.Split(good, ".")
	f.Fuzz(func(t *testing.T, raw string) {
		// Base64 without padding has unused bits in its last character: two spellings, one signature.
		spelling := strings.HasPrefix(raw, part[0]+"."+part[1]+".")
		if id, err := NewVerifier(key, "cluster.local", at(noon)).Verify(raw); err == nil && !spelling {
			t.Fatalf("Verify(%q) = %s", raw, id)
		}
	})
}
