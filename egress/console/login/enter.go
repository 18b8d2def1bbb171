package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// state is the cookie of a login that is under way at the issuer.
const (
	state       = "__Host-sallyport-login"
	begunWithin = 10 * time.Minute
)

// ByToken logs a browser in by a token.
func (g *Gate) ByToken(w http.ResponseWriter, r *http.Request, token string) (Reader, error) {
	ctx, cancel := context.WithTimeout(r.Context(), askedWithin)
	defer cancel()
	if token = strings.TrimSpace(token); token == "" {
		return Reader{}, errors.New("token: paste one, such as that of kubectl create token")
	}
	if !g.attempts.left(r) {
		return Reader{}, ErrTooMany
	}
	reader, err := g.byToken(ctx, token)
	if err != nil {
		g.attempts.failed(r)
		g.told.Warn("console: a login by token failed", "from", r.RemoteAddr, "err", err)
		return reader, err
	}
	return reader, g.enter(ctx, w, r, &session{token: token}, reader.by(record.ByToken))
}

// recordedEvery is how often logins of one name from one address are recorded: who logs in again and again fills no disk.
const recordedEvery = time.Minute

// visitor is a name at an address.
type visitor struct {
	name string
	from netip.Prefix
}

func (g *Gate) enter(ctx context.Context, w http.ResponseWriter, r *http.Request, s *session, reader Reader) error {
	who, now := visitor{reader.Name, address(r)}, g.Now()
	if at, known := g.entered.Get(who); g.Entered != nil && (!known || now.Sub(at) >= recordedEvery) {
		if err := g.Entered(ctx, r, reader); err != nil {
			g.Logger.Error("console: a login is not recorded, and so is none", "by", reader.Name, "err", err)
			return ErrUnrecorded
		}
		g.entered.Add(who, now)
	}
	g.sessions.end(r) // of before
	g.sessions.begin(w, s, reader.Name, g.Now())
	g.Logger.Info("console: a login", "by", reader.Name, "from", r.RemoteAddr, "all", reader.All, "namespaces", len(reader.Namespaces))
	return nil
}

// AtIssuer sends a browser to the issuer, which sends it back to CallbackPath.
func (g *Gate) AtIssuer(w http.ResponseWriter, r *http.Request, next string) (string, error) {
	if g.Issuer == nil {
		return "", errNoIssuer
	}
	ctx, cancel := context.WithTimeout(r.Context(), askedWithin)
	defer cancel()
	b := begun{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: Within(next), Until: g.Now().Add(begunWithin)}
	to, err := g.Issuer.begin(ctx, b)
	if err != nil {
		g.told.Warn("console: no login at the issuer", "err", err)
		return "", err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	setCookie(w, state, base64.RawURLEncoding.EncodeToString(text), int(begunWithin.Seconds()))
	return to, nil
}

// FromIssuer takes a browser back from the issuer, and says where it wanted to go. What the browser keeps of its login is no proof that it began one: whoever
// likes begins as many as he likes. So the issuer is asked about so many codes of an address as about tokens.
func (g *Gate) FromIssuer(w http.ResponseWriter, r *http.Request) (next string, err error) {
	if g.Issuer == nil {
		return "", errNoIssuer
	}
	ctx, cancel := context.WithTimeout(r.Context(), askedWithin)
	defer cancel()
	b, ok := begunBy(r)
	if answer := r.URL.Query().Get("state"); !ok || answer == "" || subtle.ConstantTimeCompare([]byte(b.State), []byte(answer)) != 1 || !g.Now().Before(b.Until) {
		return "", errOldAnswer
	}
	said := r.URL.Query().Get("error")
	if said == "" && !g.codes.take(r) {
		return "", ErrTooMany // the cookie stays: the same answer counts some seconds later
	}
	setCookie(w, state, "", -1) // a second time it is over; the issuer takes a code once
	if said != "" {
		return "", fmt.Errorf("the issuer says: %.100q", said)
	}
	user, hint, err := g.Issuer.end(ctx, r.URL.Query().Get("code"), b)
	var reader Reader
	if err == nil {
		reader, err = g.reads(ctx, user)
	}
	if err != nil {
		g.told.Warn("console: a login at the issuer failed", "by", user.Name, "from", r.RemoteAddr, "err", err)
		return "", err
	}
	return Within(b.Next), g.enter(ctx, w, r, &session{user: user, hint: hint}, reader.by(record.ByIssuer))
}

// begunBy reads what the browser keeps of a login that it began.
func begunBy(r *http.Request) (b begun, ok bool) {
	c, err := r.Cookie(state)
	if err != nil {
		return b, false
	}
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	return b, err == nil && json.Unmarshal(text, &b) == nil
}

// Leave ends a session. Of one that began at the issuer it says where to go to log out there; otherwise it is "".
func (g *Gate) Leave(w http.ResponseWriter, r *http.Request) (to string) {
	if s, ok := g.sessions.find(r, g.Now()); ok && s.token == "" && g.Issuer != nil {
		ctx, cancel := context.WithTimeout(r.Context(), askedWithin)
		defer cancel()
		to = g.Issuer.leave(ctx, s.hint)
	}
	g.sessions.end(r)
	setCookie(w, cookie, "", -1)
	return to
}

// Within is a path of the console: another site's address is the first page.
func Within(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") || strings.HasPrefix(next, "/login") {
		return "/"
	}
	return next
}
