package issuer

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Provider vouches for one person.
type Provider struct {
	*httptest.Server
	mu sync.Mutex
	// Person is who logs in, with claims beside the standard ones.
	Person string
	Claims map[string]any
	// Lifetime is that of tokens.
	Lifetime time.Duration
	// Change, if set, changes what a token says before it is signed once more: the library itself gives none that is for somebody else.
	Change func(claims map[string]any)
	// Ended are whose sessions ended there.
	Ended []string

	keys     []key // those that are told; the last one signs
	requests map[string]*request
	codes    map[string]string
	client   *client
}

// New is an issuer with one client.
func New(t *testing.T, clientID, secret, callback, loggedOut string) *Provider {
	t.Helper()
	p := &Provider{
		Person: "anna", Lifetime: time.Hour, Claims: map[string]any{"groups": []string{"people"}},
		requests: map[string]*request{}, codes: map[string]string{},
		client: &client{id: clientID, secret: secret, callback: callback, loggedOut: loggedOut},
	}
	p.Rotate(t)
	var handler http.Handler
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(p.Close)
	p.client.login = p.URL + "/people?id="
	provider, err := op.NewProvider(&op.Config{CryptoKey: [32]byte{1}, CodeMethodS256: true, DefaultLogoutRedirectURI: p.URL + "/bye"}, &storage{Provider: p}, op.StaticIssuer(p.URL))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/people", func(w http.ResponseWriter, r *http.Request) { // who is asked for nothing
		id := r.URL.Query().Get("id")
		p.mu.Lock()
		if asked := p.requests[id]; asked != nil {
			asked.person = p.Person
		}
		p.mu.Unlock()
		http.Redirect(w, r, op.AuthCallbackURL(provider)(op.ContextWithIssuer(r.Context(), p.URL), id), http.StatusFound)
	})
	mux.HandleFunc("/oauth/token", func(w http.ResponseWriter, r *http.Request) { p.token(t, provider, w, r) })
	mux.Handle("/", provider)
	handler = mux
	return p
}

// Rotate makes a new key, which signs from now on, and forgets the old one.
func (p *Provider) Rotate(t *testing.T) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = []key{{id: fmt.Sprint("key ", time.Now().UnixNano()), private: private}}
}

// token answers as the library does, but for what Change changes.
func (p *Provider) token(t *testing.T, library http.Handler, w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	change, by := p.Change, p.keys[len(p.keys)-1]
	p.mu.Unlock()
	if change == nil {
		library.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	library.ServeHTTP(answer, r)
	var said, claims map[string]any
	err := json.Unmarshal(answer.Body.Bytes(), &said)
	text, _ := said["id_token"].(string)
	signed, e := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || e != nil {
		t.Errorf("the library answers %d %s", answer.Code, answer.Body)
		return
	}
	if err := json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &claims); err != nil {
		t.Error(err)
	}
	change(claims)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: by.private}, (&jose.SignerOptions{}).WithHeader("kid", by.id))
	if err != nil {
		t.Error(err)
		return
	}
	if said["id_token"], err = jwt.Signed(signer).Claims(claims).Serialize(); err != nil {
		t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said)
}

// Set changes what comes next.
func (p *Provider) Set(f func(p *Provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// HasEnded says whether somebody's session ended here.
func (p *Provider) HasEnded(person string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.Ended, person)
}

type key struct {
	id      string
	private *rsa.PrivateKey
}

func (k key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k key) Key() any                                    { return k.private }
func (k key) ID() string                                  { return k.id }

// told is the part of a key that everybody may know.
type told struct{ key }

func (k told) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k told) Use() string                        { return "sig" }
func (k told) Key() any                           { return &k.private.PublicKey }

// storage is what the library keeps things in. What it does not implement is not asked of it here.
type storage struct {
	op.Storage
	*Provider
}

func (s *storage) Health(context.Context) error { return nil }

func (s *storage) CreateAuthRequest(_ context.Context, asked *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &request{AuthRequest: asked, id: rand.Text()}
	s.requests[r.id] = r
	return r, nil
}

func (s *storage) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.requests[id]; r != nil {
		return r, nil
	}
	return nil, errors.New("no such request")
}

func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	id := s.codes[code]
	s.mu.Unlock()
	return s.AuthRequestByID(ctx, id)
}

func (s *storage) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = id
	return nil
}

func (s *storage) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, id)
	return nil
}

func (s *storage) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	return rand.Text(), time.Now().Add(time.Hour), nil
}

func (s *storage) TerminateSession(_ context.Context, person, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Ended = append(s.Ended, person)
	return nil
}

func (s *storage) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[len(s.keys)-1], nil
}

func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s *storage) KeySet(context.Context) (all []op.Key, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		all = append(all, told{k})
	}
	return all, nil
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	if id != s.client.id {
		return nil, errors.New("no such client")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := *s.client
	c.lifetime = s.Lifetime
	return &c, nil
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	if id != s.client.id || secret != s.client.secret {
		return errors.New("wrong secret")
	}
	return nil
}

func (s *storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

func (s *storage) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, r op.IDTokenRequest, _ []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	info.Subject = r.GetSubject()
	for name, value := range s.Claims {
		info.AppendClaims(name, value)
	}
	return nil
}

func (s *storage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}

// request is a login that is under way.
type request struct {
	*oidc.AuthRequest
	id     string
	person string // "" until somebody logged in
}

func (r *request) GetID() string      { return r.id }
func (r *request) GetACR() string     { return "" }
func (r *request) GetAMR() []string   { return []string{"pwd"} }
func (r *request) GetSubject() string { return r.person }
func (r *request) Done() bool         { return r.person != "" }

func (r *request) GetAudience() []string  { return []string{r.ClientID} }
func (r *request) GetAuthTime() time.Time { return time.Now() }
func (r *request) GetClientID() string    { return r.ClientID }
func (r *request) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.CodeChallenge, Method: r.CodeChallengeMethod}
}
func (r *request) GetNonce() string                   { return r.Nonce }
func (r *request) GetRedirectURI() string             { return r.RedirectURI }
func (r *request) GetResponseType() oidc.ResponseType { return r.ResponseType }
func (r *request) GetResponseMode() oidc.ResponseMode { return r.ResponseMode }
func (r *request) GetScopes() []string                { return r.Scopes }
func (r *request) GetState() string                   { return r.State }

// client is the console, as the issuer knows it.
type client struct {
	op.Client
	id, secret, callback, loggedOut, login string
	lifetime                               time.Duration
}

func (c *client) GetID() string                       { return c.id }
func (c *client) RedirectURIs() []string              { return []string{c.callback} }
func (c *client) PostLogoutRedirectURIs() []string    { return []string{c.loggedOut} }
func (c *client) ApplicationType() op.ApplicationType { return op.ApplicationTypeWeb }
func (c *client) AuthMethod() oidc.AuthMethod         { return oidc.AuthMethodBasic }
func (c *client) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (c *client) GrantTypes() []oidc.GrantType         { return []oidc.GrantType{oidc.GrantTypeCode} }
func (c *client) LoginURL(id string) string            { return c.login + id }
func (c *client) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeBearer }
func (c *client) IDTokenLifetime() time.Duration       { return c.lifetime }
func (c *client) DevMode() bool                        { return false }
func (c *client) IsScopeAllowed(string) bool           { return true }
func (c *client) IDTokenUserinfoClaimsAssertion() bool { return true }
func (c *client) ClockSkew() time.Duration             { return 0 }
func (c *client) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(s []string) []string { return s }
}
func (c *client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(s []string) []string { return s }
}
