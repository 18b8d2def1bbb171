package login

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// provider is an OpenID Connect issuer: it vouches for one person, and keeps to what clients have to prove.
type provider struct {
	*httptest.Server
	key    *rsa.PrivateKey
	claims map[string]any
	asked  url.Values // of the browser
	nonce  string     // in place of what was asked for
	code   bool       // was taken
	told   int        // codes
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, claims: map[string]any{"sub": "anna", "groups": []string{"people", "system:masters"}}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "end_session_endpoint": p.URL + "/end",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) { p.token(t, w, r) })
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) token(t *testing.T, w http.ResponseWriter, r *http.Request) {
	name, secret, _ := r.BasicAuth()
	proof := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	taken := p.code
	p.code = true
	p.told++
	if taken || r.FormValue("code") != "the code" || name+secret+r.FormValue("client_id")+r.FormValue("client_secret") != "consolehush" ||
		base64.RawURLEncoding.EncodeToString(proof[:]) != p.asked.Get("code_challenge") {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: p.key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		t.Error(err)
	}
	nonce := p.asked.Get("nonce")
	if p.nonce != "" {
		nonce = p.nonce
	}
	text, err := jwt.Signed(signer).Claims(map[string]any{"iss": p.URL, "aud": "console", "exp": 4102444800, "iat": 1, "nonce": nonce}).Claims(p.claims).Serialize()
	if err != nil {
		t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": text})
}

// atIssuer is a gate that has it.
func atIssuer(t *testing.T, p *provider, change func(*IssuerOptions)) *scene {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := IssuerOptions{URL: p.URL, ClientID: "console", SecretFile: secret, Callback: "https://console.test" + CallbackPath,
		UsernamePrefix: "-", GroupsClaim: "groups", Client: p.Client()}
	if change != nil {
		change(&o)
	}
	issuer, err := NewIssuer(o)
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t)
	s.Issuer = issuer
	return s
}

// back goes to the issuer, as a browser does, and is the request that it comes back with.
func (s *scene) back(t *testing.T, p *provider, change func(back url.Values)) (*http.Request, error) {
	t.Helper()
	w := httptest.NewRecorder()
	to, err := s.AtIssuer(w, request(), "/flows?q=a")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, p.URL+"/auth?") {
		t.Fatalf("sent to %s, %v", to, err)
	}
	p.asked, p.code = u.Query(), false
	back := url.Values{"state": {p.asked.Get("state")}, "code": {"the code"}}
	if change != nil {
		change(back)
	}
	r := httptest.NewRequest(http.MethodGet, CallbackPath+"?"+back.Encode(), nil)
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	return r, nil
}

// login goes to the issuer and back.
func (s *scene) login(t *testing.T, p *provider, change func(back url.Values)) (next string, cookies []*http.Cookie, err error) {
	t.Helper()
	r, err := s.back(t, p, change)
	if err != nil {
		return "", nil, err
	}
	w := httptest.NewRecorder()
	next, err = s.FromIssuer(w, r)
	if err == nil {
		if _, err := s.FromIssuer(httptest.NewRecorder(), r); err == nil {
			t.Errorf("the same answer once more: %v", err)
		}
	}
	return next, w.Result().Cookies(), err
}

func TestIssuer(t *testing.T) {
	p := newProvider(t)
	s := atIssuer(t, p, nil)
	next, cookies, err := s.login(t, p, nil)
	if err != nil || next != "/flows?q=a" {
		t.Fatalf("%q, %v", next, err)
	}
	got, err := s.Reader(request(cookies...))
	if err != nil || got.Name != "anna" || !got.All {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		change func(url.Values)
		nonce  string
		claims map[string]any
		late   bool
		want   string
	}{
		"too late":             {late: true, want: "begin again"},
		"another browser's":    {change: func(v url.Values) { v.Set("state", "another") }, want: "begin again"},
		"without a state":      {change: func(v url.Values) { v.Del("state") }, want: "begin again"},
		"a made-up code":       {change: func(v url.Values) { v.Set("code", "x") }, want: "begin again"},
		"the issuer refuses":   {change: func(v url.Values) { v.Set("error", "access_denied") }, want: "access_denied"},
		"another login's":      {nonce: "another", want: "not for this login"},
		"without a name":       {claims: map[string]any{"sub": ""}, want: `no claim "sub"`},
		"the cluster's own":    {claims: map[string]any{"sub": "system:admin"}, want: "the cluster's own"},
		"somebody without any": {claims: map[string]any{"sub": "nora"}, want: "records of none"},
	} {
		p.nonce, p.claims = c.nonce, map[string]any{"sub": "anna"}
		if c.late {
			c.change = func(url.Values) { s.now.Advance(begunWithin) }
		}
		if c.claims != nil {
			p.claims = c.claims
		}
		if _, _, err := s.login(t, p, c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIssuersNames(t *testing.T) {
	p := newProvider(t)
	for name, c := range map[string]struct {
		change func(*IssuerOptions)
		claims map[string]any
		want   string
		groups []string
	}{
		"usual":              {func(o *IssuerOptions) { o.UsernamePrefix = "" }, map[string]any{"sub": "anna"}, p.URL + "#anna", nil},
		"address":            {func(o *IssuerOptions) { o.UsernamePrefix, o.UsernameClaim = "", "email" }, map[string]any{"email": "a@b.test", "email_verified": true}, "a@b.test", nil},
		"address of nobody":  {func(o *IssuerOptions) { o.UsernameClaim = "email" }, map[string]any{"email": "a@b.test", "email_verified": false}, "", nil},
		"groups":             {func(o *IssuerOptions) { o.GroupsPrefix = "oidc:" }, map[string]any{"sub": "x", "groups": []any{"a", 7, "system:masters"}}, "x", []string{"oidc:a", "oidc:system:masters"}},
		"the cluster's":      {nil, map[string]any{"sub": "x", "groups": []any{"a", "system:masters"}}, "x", []string{"a"}},
		"one group":          {nil, map[string]any{"sub": "x", "groups": "a"}, "x", []string{"a"}},
		"a name of no text":  {nil, map[string]any{"sub": 7}, "", nil},
		"a prefix as a name": {func(o *IssuerOptions) { o.UsernamePrefix = "system:" }, map[string]any{"sub": "node"}, "", nil},
	} {
		s := atIssuer(t, p, c.change)
		u, err := s.Issuer.user(c.claims)
		if u.Name != c.want || !slices.Equal(u.Groups, c.groups) || (err == nil) != (c.want != "") {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
}

func TestIssuerOptions(t *testing.T) {
	for want, o := range map[string]IssuerOptions{
		"client ID": {URL: "https://i.test", Callback: "https://c.test" + CallbackPath},
		"issuer":    {URL: "http://i.test", ClientID: "c", Callback: "https://c.test" + CallbackPath},
		"callback":  {URL: "https://i.test", ClientID: "c", Callback: "http://c.test" + CallbackPath},
		"path":      {URL: "https://i.test", ClientID: "c", Callback: "https://c.test/"},
	} {
		if _, err := NewIssuer(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestIssuerAway: it is asked again at the next login.
func TestIssuerAway(t *testing.T) {
	p := newProvider(t)
	s := atIssuer(t, p, func(o *IssuerOptions) { o.Client = &http.Client{Transport: away{}} })
	if _, err := s.AtIssuer(httptest.NewRecorder(), request(), "/"); err == nil || !strings.Contains(err.Error(), p.URL) {
		t.Error(err)
	}
	if _, err := s.AtIssuer(httptest.NewRecorder(), request(), "/"); err == nil {
		t.Error("who failed just now is asked again at once, and answers")
	}
	s.Issuer.Client, s.Issuer.at = p.Client(), time.Time{}
	if _, _, err := s.login(t, p, nil); err != nil {
		t.Error(err)
	}
}

type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("nobody is there")
}

// TestIssuerHint: proxies refuse long headers, and who logs out is sent on by one: a long token is no hint.
func TestIssuerHint(t *testing.T) {
	for groups, hinted := range map[int]bool{1: true, 300: false} {
		p := newProvider(t)
		p.claims["groups"] = slices.Repeat([]string{"people"}, groups)
		s := atIssuer(t, p, func(o *IssuerOptions) { o.Logout = true })
		_, in, err := s.login(t, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(s.Leave(httptest.NewRecorder(), request(in...)))
		if err != nil || to.Path != "/end" || to.Query().Get("client_id") != "console" || to.Query().Has("id_token_hint") != hinted {
			t.Errorf("%d groups: sent to %s, %v", groups, to, err)
		}
	}
}

// straight answers requests without a network.
type straight struct{ http.Handler }

func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestMadeUpAnswers: who says that the issuer sent him has it asked about few codes, and whoever it did send comes in with the same answer a second later.
func TestMadeUpAnswers(t *testing.T) {
	p := newProvider(t)
	s := atIssuer(t, p, func(o *IssuerOptions) { o.Client = &http.Client{Transport: straight{p.Config.Handler}} })
	synctest.Test(t, func(t *testing.T) {
		madeUp := func(from string) error {
			r := httptest.NewRequest(http.MethodGet, CallbackPath+"?state=x&code=y", nil)
			r.RemoteAddr = from
			r.AddCookie(&http.Cookie{Name: state, Value: base64.RawURLEncoding.EncodeToString([]byte(`{"state":"x","until":"2100-01-01T00:00:00Z"}`))})
			_, err := s.FromIssuer(httptest.NewRecorder(), r)
			return err
		}
		here := request().RemoteAddr
		asked := 0
		for range 200 {
			if err := madeUp(here); !errors.Is(err, ErrTooMany) {
				asked++
			}
		}
		if asked != atFirst || p.told > 2*atFirst { // each may be told in two ways
			t.Errorf("of 200 made-up answers %d were believed, and the issuer was told %d codes", asked, p.told)
		}
		if err := madeUp("198.51.100.7:1"); errors.Is(err, ErrTooMany) {
			t.Errorf("from elsewhere: %v", err)
		}
		if _, err := s.ByToken(httptest.NewRecorder(), request(), "A"); err != nil {
			t.Errorf("a login by token: %v", err)
		}
		r, err := s.back(t, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if _, err := s.FromIssuer(w, r); !errors.Is(err, ErrTooMany) || len(w.Result().Cookies()) > 0 {
			t.Errorf("a login beside them: %v, %v", err, w.Result().Cookies())
		}
		time.Sleep(time.Second / perSecond)
		if next, err := s.FromIssuer(w, r); err != nil || next != "/flows?q=a" {
			t.Errorf("later: %q, %v", next, err)
		}
	})
}
