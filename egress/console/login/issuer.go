package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

// IssuerOptions say who vouches for people. Names are made of claims as the API server makes them by its flags of the same names.
type IssuerOptions struct {
	URL, ClientID  string
	SecretFile     string // read at each login; empty for a client without a secret
	Callback       string // https://HOST/login/callback, as the issuer knows it
	UsernameClaim  string // "sub" where it is empty
	UsernamePrefix string // "ISSUER#" where it is empty and the claim is not email; "-" for none
	GroupsClaim    string // empty for no groups
	GroupsPrefix   string
	Scopes         []string // beside openid
	Logout         bool     // who logs out here does so at the issuer, too, which sends them back to https://HOST/login
	Client         *http.Client
}

// CallbackPath is where an issuer sends people back to.
const CallbackPath = "/login/callback"

// Issuer vouches for people by OpenID Connect.
type Issuer struct {
	IssuerOptions
	flights singleflight.Group
	mu      sync.Mutex
	known   *oidc.Provider // nil until it answered
	failed  error          // how it failed last, and when
	at      time.Time
}

// rest is how long an issuer that failed is left alone.
const rest = 3 * time.Second

// NewIssuer checks the options; the issuer is asked at the first login.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	if o.ClientID == "" {
		return nil, errors.New("the issuer's client ID is missing: it is what the console is called there")
	}
	for what, text := range map[string]string{"issuer": o.URL, "callback": o.Callback} {
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%s %q: it is an address that begins with https://", what, text)
		}
	}
	if u, _ := url.Parse(o.Callback); u.Path != CallbackPath {
		return nil, fmt.Errorf("callback %q: its path is %s", o.Callback, CallbackPath)
	}
	if o.UsernameClaim == "" {
		o.UsernameClaim = "sub"
	}
	switch {
	case o.UsernamePrefix == "-":
		o.UsernamePrefix = ""
	case o.UsernamePrefix == "" && o.UsernameClaim != "email":
		o.UsernamePrefix = o.URL + "#"
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: askedWithin}
	}
	return &Issuer{IssuerOptions: o}, nil
}

// found asks the issuer where its parts are, until it answered once: one question for all who wait, and none soon after one that failed.
func (i *Issuer) found(ctx context.Context) (*oidc.Provider, error) {
	i.mu.Lock()
	known, failed := i.known, i.failed
	if time.Since(i.at) > rest {
		failed = nil
	}
	i.mu.Unlock()
	if known != nil || failed != nil {
		return known, failed
	}
	answer := i.flights.DoChan("", func() (any, error) {
		// What the provider keeps asks for keys later on, so it must not end with this request.
		p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), i.Client), i.URL)
		if err != nil {
			err = fmt.Errorf("the issuer %s: %w", i.URL, err)
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.known, i.failed, i.at = p, err, time.Now()
		return p, err
	})
	select {
	case a := <-answer:
		p, _ := a.Val.(*oidc.Provider)
		return p, a.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("the issuer %s: %w", i.URL, ctx.Err())
	}
}

func (i *Issuer) config(p *oidc.Provider) (oauth2.Config, error) {
	c := oauth2.Config{ClientID: i.ClientID, Endpoint: p.Endpoint(), RedirectURL: i.Callback, Scopes: append([]string{oidc.ScopeOpenID}, i.Scopes...)}
	if i.SecretFile != "" {
		secret, err := os.ReadFile(i.SecretFile)
		if err != nil {
			return c, fmt.Errorf("the secret of the issuer's client: %w", err)
		}
		c.ClientSecret = strings.TrimSpace(string(secret))
	}
	return c, nil
}

// begun is a login that is under way at the issuer. The browser keeps it, in a cookie that no other site sets or sees: strangers who begin many leave
// nothing here.
type begun struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`
	Until    time.Time `json:"until"`
}

// begin is where a browser is sent.
func (i *Issuer) begin(ctx context.Context, b begun) (string, error) {
	p, err := i.found(ctx)
	if err != nil {
		return "", err
	}
	c, err := i.config(p)
	return c.AuthCodeURL(b.State, oidc.Nonce(b.Nonce), oauth2.S256ChallengeOption(b.Verifier)), err
}

// end takes the code that a browser came back with to the issuer, and reads whom it vouches for; hint is what the issuer knows this login by.
func (i *Issuer) end(ctx context.Context, code string, b begun) (u User, hint string, err error) {
	p, err := i.found(ctx)
	if err != nil {
		return User{}, "", err
	}
	c, err := i.config(p)
	if err != nil {
		return User{}, "", err
	}
	ctx = oidc.ClientContext(ctx, i.Client)
	given, err := c.Exchange(ctx, code, oauth2.VerifierOption(b.Verifier))
	if err != nil {
		return User{}, "", errors.New("the issuer does not take the code: begin again") // what it says may hold secrets
	}
	raw, _ := given.Extra("id_token").(string)
	token, err := p.VerifierContext(ctx, &oidc.Config{ClientID: i.ClientID}).Verify(ctx, raw)
	if err != nil {
		return User{}, "", fmt.Errorf("the issuer's token: %w", err)
	}
	if b.Nonce == "" || token.Nonce != b.Nonce {
		return User{}, "", errors.New("the issuer's token is not for this login")
	}
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return User{}, "", fmt.Errorf("the issuer's token: %w", err)
	}
	if by, said := claims["azp"]; said && by != i.ClientID || !said && len(token.Audience) > 1 {
		return User{}, "", fmt.Errorf("the issuer's token was given to %q, and not to %q", fmt.Sprint(by), i.ClientID)
	}
	if i.Logout && len(raw) <= maxHint {
		hint = raw
	}
	u, err = i.user(claims)
	return u, hint, err
}

// leave is where a browser is sent that logs out; "" where the issuer has no such place, or is not asked.
func (i *Issuer) leave(ctx context.Context, hint string) string {
	var told struct {
		End string `json:"end_session_endpoint"`
	}
	p, err := i.found(ctx)
	if err != nil || !i.Logout || p.Claims(&told) != nil {
		return ""
	}
	u, err := url.Parse(told.End)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return ""
	}
	q := u.Query()
	q.Set("client_id", i.ClientID)
	q.Set("post_logout_redirect_uri", strings.TrimSuffix(i.Callback, CallbackPath)+"/login")
	if hint != "" {
		q.Set("id_token_hint", hint)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// user makes a user of claims.
func (i *Issuer) user(claims map[string]any) (User, error) {
	name, _ := claims[i.UsernameClaim].(string)
	if name == "" {
		return User{}, fmt.Errorf("the issuer's token has no claim %q, or it is no text", i.UsernameClaim)
	}
	if verified, said := claims["email_verified"]; i.UsernameClaim == "email" && said && verified != true {
		return User{}, fmt.Errorf("the issuer did not verify the address %q", name)
	}
	u := User{Name: i.UsernamePrefix + name}
	// What begins so is the cluster's own: an issuer's word makes nobody that.
	if strings.HasPrefix(u.Name, "system:") {
		return User{}, fmt.Errorf("%q is a name of the cluster's own: give the issuer's names a prefix", u.Name)
	}
	switch groups := claims[i.GroupsClaim].(type) {
	case string:
		u.add(i.GroupsPrefix + groups)
	case []any:
		for _, g := range groups {
			if text, ok := g.(string); ok {
				u.add(i.GroupsPrefix + text)
			}
		}
	}
	return u, nil
}

func (u *User) add(group string) {
	if !strings.HasPrefix(group, "system:") {
		u.Groups = append(u.Groups, group)
	}
}
