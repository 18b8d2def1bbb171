package issuer

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/console/login"
)

// cluster is where anna may read all, and others nothing.
type cluster struct{}

func (cluster) Who(context.Context, string) (login.User, error) {
	return login.User{}, login.ErrUnknown
}

func (cluster) May(_ context.Context, u login.User, namespace string) (bool, error) {
	return u.Name == "oidc:anna" && len(u.Groups) == 1 && u.Groups[0] == "oidc:people" && namespace == "", nil
}

// site is what the console's handler does of a login, over TLS, and the issuer.
type site struct {
	*httptest.Server
	issuer *Provider
	gate   *login.Gate
	failed error // by the last login
}

const secret = "hush"

func newSite(t *testing.T, change func(*login.IssuerOptions)) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r) }))
	t.Cleanup(s.Close)
	s.issuer = New(t, "console", secret, s.URL+login.CallbackPath, s.URL+"/login")
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := login.IssuerOptions{
		URL: s.issuer.URL, ClientID: "console", SecretFile: file, Callback: s.URL + login.CallbackPath, UsernamePrefix: "oidc:", GroupsClaim: "groups", GroupsPrefix: "oidc:",
		Scopes: []string{"profile"}, Logout: true, Client: s.issuer.Client(),
	}
	if change != nil {
		change(&o)
	}
	i, err := login.NewIssuer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.gate = login.New(login.Options{Cluster: cluster{}, Issuer: i, Namespaces: func(context.Context) ([]string, error) { return []string{"shop"}, nil }})
	return s
}

func (s *site) answer(w http.ResponseWriter, r *http.Request) {
	var to string
	var err error
	switch r.URL.Path {
	case "/login/issuer":
		to, err = s.gate.AtIssuer(w, r, "/log")
	case login.CallbackPath:
		to, err = s.gate.FromIssuer(w, r)
		s.failed = err
	case "/logout":
		if to = s.gate.Leave(w, r); to == "" {
			to = "/login"
		}
	case "/login":
		return
	default:
		reader, e := s.gate.Reader(r)
		if e != nil {
			http.Error(w, e.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(reader.Name))
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// browser keeps cookies, and trusts both.
func (s *site) browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	roots.AddCert(s.issuer.Certificate())
	transport := s.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = roots
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

// get follows where it is led, and says where that was and what stood there.
func get(t *testing.T, c *http.Client, at string) (where *url.URL, status int, text string) {
	t.Helper()
	r, err := c.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body := make([]byte, 4096)
	n, _ := r.Body.Read(body)
	return r.Request.URL, r.StatusCode, string(body[:n])
}

// TestLogin goes to the issuer and back, reads, and leaves: here and there.
func TestLogin(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	if _, status, _ := get(t, b, s.URL+"/log"); status != http.StatusUnauthorized {
		t.Errorf("before: %d", status)
	}
	at, status, text := get(t, b, s.URL+"/login/issuer")
	if at.Path != "/log" || status != http.StatusOK || text != "oidc:anna" {
		t.Fatalf("%s: %d %s; %v", at, status, text, s.failed)
	}
	at, _, _ = get(t, b, s.URL+"/logout")
	if at.Scheme+"://"+at.Host != s.URL || at.Path != "/login" || !s.issuer.HasEnded("anna") {
		t.Errorf("left to %s; ended there: %v", at, s.issuer.HasEnded("anna"))
	}
	if _, status, _ := get(t, b, s.URL+"/log"); status != http.StatusUnauthorized {
		t.Errorf("afterwards: %d", status)
	}
}

// TestNoLogoutThere: without being told to, who leaves does so here alone.
func TestNoLogoutThere(t *testing.T) {
	s := newSite(t, func(o *login.IssuerOptions) { o.Logout = false })
	b := s.browser(t)
	get(t, b, s.URL+"/login/issuer")
	if at, _, _ := get(t, b, s.URL+"/logout"); at.Path != "/login" || s.issuer.HasEnded("anna") {
		t.Errorf("left to %s", at)
	}
}

// TestKeysRotate: after the issuer has a new key, and forgot the old one, people log in as before.
func TestKeysRotate(t *testing.T) {
	s := newSite(t, nil)
	for range 3 {
		if at, _, text := get(t, s.browser(t), s.URL+"/login/issuer"); text != "oidc:anna" {
			t.Fatalf("%s: %s", at, text)
		}
		s.issuer.Rotate(t)
	}
}

// says makes an issuer's tokens say something else; nil takes a claim away.
func says(claims ...any) func(*Provider) {
	return func(p *Provider) {
		p.Change = func(c map[string]any) {
			for i := 0; i < len(claims); i += 2 {
				name, _ := claims[i].(string)
				c[name] = claims[i+1]
				if claims[i+1] == nil {
					delete(c, name)
				}
			}
		}
	}
}

// TestRefused: what a certified issuer may say that is not a login of this person, for this console, now.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		issuer  func(*Provider)
		options func(*login.IssuerOptions)
		want    string
	}{
		"expired":                 {issuer: func(p *Provider) { p.Lifetime = -time.Minute }, want: "expired"},
		"for another":             {issuer: says("aud", "another"), want: "audience"},
		"for several, to another": {issuer: says("aud", []string{"another", "console"}, "azp", "another"), want: `given to "another"`},
		"for several, to nobody":  {issuer: says("aud", []string{"another", "console"}, "azp", nil), want: "given to"},
		"for another login":       {issuer: says("nonce", "another"), want: "not for this login"},
		"by another":              {issuer: says("iss", "https://issuer.test"), want: "different provider"},
		"who may not read":        {issuer: func(p *Provider) { p.Person = "bert" }, want: "records of none"},
		"without the group":       {issuer: func(p *Provider) { p.Claims = nil }, want: "records of none"},
		"another secret":          {options: func(o *login.IssuerOptions) { o.SecretFile = "" }, want: "begin again"},
		"an issuer of that name":  {options: func(o *login.IssuerOptions) { o.URL += "/elsewhere" }, want: "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, c.options)
			if c.issuer != nil {
				s.issuer.Set(c.issuer)
			}
			at, status, text := get(t, s.browser(t), s.URL+"/login/issuer")
			if status == http.StatusOK || !strings.Contains(text, c.want) || strings.Contains(text, secret) {
				t.Errorf("%s: %d %s", at.Path, status, text)
			}
		})
	}
}

// TestProofs: a code that somebody caught is of no use, neither in another browser nor by itself at the issuer.
func TestProofs(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	var back *url.URL
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == login.CallbackPath {
			back = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	get(t, b, s.URL+"/login/issuer")
	if back == nil || back.Query().Get("code") == "" {
		t.Fatalf("it came back with %v", back)
	}
	if _, status, text := get(t, s.browser(t), back.String()); status != http.StatusForbidden || !strings.Contains(text, "begin again") {
		t.Errorf("another browser: %d %s", status, text)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {s.URL + login.CallbackPath}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.issuer.URL+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("console", secret)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		t.Error("the issuer gives a token without the proof that only who began has: it was not asked for one")
	}
}

// TestTLS: an issuer whose certificate is not trusted vouches for nobody.
func TestTLS(t *testing.T) {
	s := newSite(t, func(o *login.IssuerOptions) { o.Client = &http.Client{Timeout: 5 * time.Second} })
	if at, status, text := get(t, s.browser(t), s.URL+"/login/issuer"); status == http.StatusOK || !strings.Contains(text, "certificate") {
		t.Errorf("%s: %d %s", at.Path, status, text)
	}
}
