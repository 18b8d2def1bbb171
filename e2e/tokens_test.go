package e2e

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// signer signs tokens.
type signer struct {
	name, kid string
	key       *rsa.PrivateKey
}

func newSigner(t *testing.T, name, kid string) signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return signer{name, kid, key}
}

// keys is the set of the public keys of issuers.
func keys(t *testing.T, of ...signer) string {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, i := range of {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: i.key.Public(), KeyID: i.kid, Algorithm: "RS256", Use: "sig"})
	}
	out, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

type claims map[string]any

// token is a good one for an hour, for the audience app, with other claims besides or in place of these.
func (i signer) token(t *testing.T, subject string, more claims) string {
	t.Helper()
	return sign(t, jose.RS256, i.key, i.kid, i.says(subject, more))
}

func (i signer) says(subject string, more claims) claims {
	all := claims{"iss": i.name, "sub": subject, "aud": "app", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, more)
	return all
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string, says claims) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(says)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unsigned is a token of alg none (RFC 7515 section 6.1).
func unsigned(t *testing.T, says claims) string {
	t.Helper()
	text, err := json.Marshal(says)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(text) + "."
}

// tokenPod is the meshed pod, with RequestAuthentications and AuthorizationPolicies.
type tokenPod struct {
	*meshed
	anna, bert signer
	written    int
}

// TestTokens: tokens of requests are verified before the pods that a RequestAuthentication selects, and AuthorizationPolicies read their
// claims.
func TestTokens(t *testing.T) {
	needRoot(t)
	t.Parallel()
	p := &tokenPod{meshed: newMeshed(t), anna: newSigner(t, "https://anna.test", "a1"), bert: newSigner(t, "https://bert.test", "b1")}
	inOrder(t, []part{
		{"good and bad", p.goodAndBad},
		{"hostile", p.hostile},
		{"places", p.places},
		{"two issuers", p.twoIssuers},
		{"who may", p.whoMay},
		{"a neighbour", p.neighbour},
		{"keys are fetched", p.fetched},
		{"keys of the inside", p.inside},
		{"live", p.live},
		{"keys change", p.rotated},
		{"the log", p.log},
	})
}

// verify writes what is there of tokens, each a kind, a namespace and a spec, and waits until the pod's proxy has those of its own namespace.
func (p *tokenPod) verify(t *testing.T, objects ...[3]string) {
	t.Helper()
	p.written++
	name := fmt.Sprintf("edition-%d", p.written)
	var all strings.Builder
	want := []string{name + "-"}
	for i, o := range objects {
		fmt.Fprintf(&all, "---\napiVersion: security.istio.io/v1\nkind: %s\nmetadata: {name: %s-%d, namespace: %s}\nspec: %s\n", o[0], name, i, o[1], o[2])
		if o[0] == "RequestAuthentication" && o[1] == "default" {
			want = append(want, "/"+name+"-0/jwtRules")
		}
	}
	p.told(t, "tokens.yaml", all.String(), want...)
}

// rule is one of jwtRules, with the issuer's own keys.
func (p *tokenPod) rule(t *testing.T, i signer, more string) string {
	return fmt.Sprintf("{issuer: %q, jwks: '%s'%s}", i.name, keys(t, i), more)
}

func authentication(rules ...string) [3]string {
	return [3]string{"RequestAuthentication", "default", "{selector: {matchLabels: {app: meshed}}, jwtRules: [" + strings.Join(rules, ", ") + "]}"}
}

func authorization(spec string) [3]string {
	return [3]string{"AuthorizationPolicy", "default", "{selector: {matchLabels: {app: meshed}}, " + spec + "}"}
}

// answers asks for a page with a token, as the app by the mesh and as the bystander in plain text, until it is answered so: with 200 in a
// page that holds what is wanted, or with another status.
func (p *tokenPod) answers(t *testing.T, what, token string, status int, holds ...string) {
	t.Helper()
	var header []string
	if token != "" {
		header = []string{"Authorization", "Bearer " + token}
	}
	p.answersTo(t, what, "/tokens", header, status, holds...)
}

func (p *tokenPod) answersTo(t *testing.T, what, path string, header []string, status int, holds ...string) {
	t.Helper()
	for _, from := range []*world.Host{p.scene.World.App, p.bystander} {
		turns(t, func() error {
			body, err := p.ask(t.Context(), from, path, header...)
			if status != 200 {
				if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprint(status)) {
					return fmt.Errorf("%s from %s: %q (%w), want %d", what, from.Name, body, err, status)
				}
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s from %s: %q (%w), want 200", what, from.Name, body, err)
			}
			for _, h := range holds {
				if !strings.Contains(body, h) {
					return fmt.Errorf("%s from %s: %q, want %q", what, from.Name, body, h)
				}
			}
			return nil
		})
	}
}

// goodAndBad: no token passes, a good one passes and is not handed on, a bad one is 401.
func (p *tokenPod) goodAndBad(t *testing.T) {
	p.verify(t, authentication(p.rule(t, p.anna, ", audiences: [app, other], outputPayloadToHeader: x-payload, outputClaimToHeaders: [{header: x-group, claim: group}]")))
	p.answers(t, "no token", "", 200, "token=[] group=[] payload=[]")
	p.answers(t, "a good one", p.anna.token(t, "u1", claims{"group": "admin"}), 200, "token=[]", "group=[admin]", "payload=[ey")
	p.answersTo(t, "headers that are forged", "/tokens", []string{"X-Group", "admin", "X-Payload", "forged"}, 200, "group=[]", "payload=[]")
	p.answers(t, "no token at all", "none", 401)
	p.answers(t, "expired", p.anna.token(t, "u1", claims{"exp": time.Now().Add(-time.Hour).Unix()}), 401)
	p.answers(t, "not yet", p.anna.token(t, "u1", claims{"nbf": time.Now().Add(time.Hour).Unix()}), 401)
	p.answers(t, "another audience", p.anna.token(t, "u1", claims{"aud": "else"}), 403)
	p.answers(t, "audiences", p.anna.token(t, "u1", claims{"aud": []string{"else", "other"}}), 200)
	p.answers(t, "another issuer", p.bert.token(t, "u1", nil), 401)
	p.verify(t, authentication(p.rule(t, p.anna, ", forwardOriginalToken: true")))
	p.answers(t, "one that goes on", p.anna.token(t, "u1", nil), 200, "token=[Bearer ey")
}

// hostile: what others sign, or nobody, is not good, and the proxy stands.
func (p *tokenPod) hostile(t *testing.T) {
	p.verify(t, authentication(p.rule(t, p.anna, "")))
	mallory := newSigner(t, p.anna.name, p.anna.kid)
	says := p.anna.says("root", nil)
	public, err := x509.MarshalPKIXPublicKey(p.anna.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	good := p.anna.token(t, "u1", nil)
	parts := strings.Split(good, ".")
	for what, token := range map[string]string{
		"alg none":                unsigned(t, says),
		"alg none, signed":        strings.Join([]string{strings.Split(unsigned(t, says), ".")[0], parts[1], parts[2]}, "."),
		"another's key":           mallory.token(t, "root", nil),
		"an unknown kid":          sign(t, jose.RS256, mallory.key, "other", says),
		"HMAC by the public key":  sign(t, jose.HS256, public, p.anna.kid, says),
		"HMAC by the set of keys": sign(t, jose.HS256, []byte(keys(t, p.anna)), p.anna.kid, says),
		"another payload":         parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://anna.test","sub":"root","exp":99999999999}`)) + "." + parts[2],
		"no signature":            parts[0] + "." + parts[1] + ".",
		"no payload":              parts[0] + ".." + parts[2],
		"four parts":              good + ".x",
		"large, and forged":       mallory.token(t, "root", claims{"pad": strings.Repeat("x", 40<<10)}),
	} {
		p.answers(t, what, token, 401)
	}
	p.answers(t, "larger than headers may be", mallory.token(t, "root", claims{"pad": strings.Repeat("x", 90<<10)}), 431)
	p.answers(t, "a good one after these", good, 200)
}

// places: headers with prefixes, parameters and cookies, and no place that no rule names.
func (p *tokenPod) places(t *testing.T) {
	token := p.anna.token(t, "u1", nil)
	forged := p.anna.token(t, "u1", nil) + "x"
	p.verify(t, authentication(p.rule(t, p.anna, "")), authorization("rules: [{from: [{source: {requestPrincipals: ['*']}}]}]"))
	p.answersTo(t, "the usual parameter", "/tokens?access_token="+token, nil, 200)
	p.answersTo(t, "no place", "/tokens?token="+token, nil, 403)
	p.verify(t, authentication(p.rule(t, p.anna, ", fromHeaders: [{name: x-token, prefix: 'v1 '}], fromParams: [tok], fromCookies: [session]")),
		authorization("rules: [{from: [{source: {requestPrincipals: ['*']}}]}]"))
	p.answersTo(t, "a header", "/tokens", []string{"X-Token", "v1 " + token}, 200)
	p.answersTo(t, "a parameter", "/tokens?tok="+token, nil, 200)
	p.answersTo(t, "a cookie", "/tokens", []string{"Cookie", "a=b; session=" + token}, 200)
	p.answersTo(t, "a forged cookie", "/tokens", []string{"Cookie", "session=" + forged}, 401)
	p.answers(t, "the usual place", token, 403)
}

// twoIssuers: a token is good by the rule of its own issuer, also where both look at the same place, and by two objects.
func (p *tokenPod) twoIssuers(t *testing.T) {
	one := [][3]string{authentication(p.rule(t, p.anna, ""), p.rule(t, p.bert, ""))}
	two := [][3]string{authentication(p.rule(t, p.anna, "")), {"RequestAuthentication", "istio-system", "{jwtRules: [" + p.rule(t, p.bert, "") + "]}"}}
	for _, objects := range [][][3]string{one, two} {
		p.verify(t, append(objects, authorization("rules: [{to: [{operation: {paths: [/tokens]}}]}, {from: [{source: {requestPrincipals: ['https://bert.test/*']}}]}]"))...)
		p.answers(t, "nobody's", "", 200)
		p.answers(t, "anna's", p.anna.token(t, "u1", nil), 200)
		p.answers(t, "bert's", p.bert.token(t, "u1", nil), 200)
		p.answers(t, "bert's, by anna's key", sign(t, jose.RS256, p.anna.key, p.anna.kid, p.bert.says("u1", nil)), 401)
		p.answersTo(t, "bert alone", "/bert", []string{"Authorization", "Bearer " + p.bert.token(t, "u1", nil)}, 200)
		p.answersTo(t, "bert alone, anna", "/bert", []string{"Authorization", "Bearer " + p.anna.token(t, "u1", nil)}, 403)
	}
}

// whoMay: AuthorizationPolicies read the subject, the audience and other claims, in lists and within others.
func (p *tokenPod) whoMay(t *testing.T) {
	rules := authentication(p.rule(t, p.anna, ", spaceDelimitedClaims: [teams]"))
	token := p.anna.token(t, "u1", claims{"group": []string{"dev", "ops"}, "realm": claims{"roles": []string{"reader"}}, "azp": "cli", "scope": "read write", "teams": "red blue", "level": 7})
	for when, may := range map[string]bool{
		`from: [{source: {requestPrincipals: ["https://anna.test/u1"]}}]`:             true,
		`from: [{source: {requestPrincipals: ["https://anna.test/u*"]}}]`:             true,
		`from: [{source: {requestPrincipals: ["*anna.test/u1"]}}]`:                    true,
		`from: [{source: {requestPrincipals: ["https://anna.test/u2"]}}]`:             false,
		`from: [{source: {requestPrincipals: ["https://bert.test/u1"]}}]`:             false,
		`from: [{source: {requestPrincipals: ["*"], notRequestPrincipals: ["*u1"]}}]`: false,
		`when: [{key: "request.auth.claims[group]", values: [ops]}]`:                  true,
		`when: [{key: "request.auth.claims[group]", values: ["o*"]}]`:                 true,
		`when: [{key: "request.auth.claims[group]", values: [admin]}]`:                false,
		`when: [{key: "request.auth.claims[group]", notValues: [admin]}]`:             true,
		`when: [{key: "request.auth.claims[realm][roles]", values: [reader]}]`:        true,
		`when: [{key: "request.auth.claims[realm][none]", values: ["*"]}]`:            false,
		`when: [{key: "request.auth.claims[scope]", values: [write]}]`:                true,
		`when: [{key: "request.auth.claims[teams]", values: [blue]}]`:                 true,
		`when: [{key: request.auth.audiences, values: [app]}]`:                        true,
		`when: [{key: request.auth.presenter, values: [cli]}]`:                        true,
		`when: [{key: "request.auth.claims[level]", values: ["7"]}]`:                  false,
		`when: [{key: request.auth.principal, values: ["https://anna.test/u1"]}]`:     true,
	} {
		p.verify(t, rules, authorization("rules: [{"+when+"}]"))
		p.answers(t, when, token, map[bool]int{true: 200, false: 403}[may])
		if strings.Contains(when, "notValues") {
			continue
		}
		p.answers(t, when+", of no token", "", 403)
	}
	p.verify(t, rules, authorization(`action: DENY, rules: [{from: [{source: {notRequestPrincipals: ["*"]}}], to: [{operation: {paths: [/tokens], ports: ["8080"]}}]}]`))
	p.answers(t, "who needs one", "", 403)
	p.answers(t, "who has one", token, 200)
	p.answersTo(t, "where none is needed", "/else", nil, 200)
}

// neighbour: what another namespace says of tokens is nothing to the pod.
func (p *tokenPod) neighbour(t *testing.T) {
	p.verify(t, authentication(p.rule(t, p.anna, "")), [3]string{"RequestAuthentication", "else", "{jwtRules: [" + p.rule(t, p.bert, "") + "]}"})
	p.answers(t, "anna's", p.anna.token(t, "u1", nil), 200)
	p.answers(t, "bert's", p.bert.token(t, "u1", nil), 401)
}

// fetched: keys come from their issuer, which may be away at first, and says itself where they are.
func (p *tokenPod) fetched(t *testing.T) {
	at := netip.AddrPortFrom(world.OutsideAddrs[0], 8899).String()
	p.anna.name, p.bert.name = "https://anna.test", "http://"+at
	p.verify(t, authentication(fmt.Sprintf("{issuer: %q, jwksUri: 'http://%s/keys'}", p.anna.name, at), fmt.Sprintf("{issuer: %q}", p.bert.name)))
	p.answers(t, "nobody's", "", 200)
	p.answers(t, "anna's, whose keys nobody has", p.anna.token(t, "u1", nil), 401)
	p.keyServer(t, p.scene.World.Outside, at)
	p.eventually(t, "anna's", p.anna.token(t, "u1", nil))
	p.eventually(t, "bert's, by discovery", p.bert.token(t, "u1", nil))
	p.answers(t, "another's", sign(t, jose.RS256, p.bert.key, p.anna.kid, p.anna.says("u1", nil)), 401)
}

// keyServer serves keys until the test ends, and says how often it was asked.
func (p *tokenPod) keyServer(t *testing.T, host *world.Host, at string) *atomic.Int64 {
	t.Helper()
	l, err := host.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	asked, text := new(atomic.Int64), keys(t, p.anna, p.bert)
	mux := http.NewServeMux()
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); _, _ = io.WriteString(w, text) })
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"jwks_uri": "http://%s/keys"}`, at)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: attackTimeout}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { _ = server.Close(); running.Wait() })
	return asked
}

func (p *tokenPod) eventually(t *testing.T, what, token string) {
	t.Helper()
	err := world.Within(t.Context(), time.Minute, func() error {
		_, err := p.ask(t.Context(), p.scene.World.App, "/fetched", "Authorization", "Bearer "+token)
		return err
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// inside: nobody has the control plane ask addresses of the inside.
func (p *tokenPod) inside(t *testing.T) {
	at := netip.AddrPortFrom(bystanderAddr, 8899).String()
	asked := p.keyServer(t, p.bystander, at)
	outside := netip.AddrPortFrom(world.OutsideAddrs[0], 8898).String()
	p.keyServer(t, p.scene.World.Outside, outside)
	p.verify(t, authentication(fmt.Sprintf("{issuer: %q, jwksUri: 'http://%s/keys'}", p.anna.name, at), fmt.Sprintf("{issuer: %q, jwksUri: 'http://%s/keys'}", p.bert.name, outside)))
	p.eventually(t, "bert's", p.bert.token(t, "u1", nil))
	p.answers(t, "anna's", p.anna.token(t, "u1", nil), 401)
	if asked.Load() > 0 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}

// live: an edit ends no connection and loses no request.
func (p *tokenPod) live(t *testing.T) {
	p.verify(t, authentication(p.rule(t, p.anna, "")))
	token := p.anna.token(t, "u1", nil)
	ctx, stop := context.WithCancel(t.Context())
	var asked atomic.Int64
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for ctx.Err() == nil {
				if _, err := p.ask(t.Context(), p.scene.World.App, "/live", "Authorization", "Bearer "+token); err != nil {
					t.Errorf("while rules change: %v", err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range 3 {
		p.verify(t, authentication(p.rule(t, p.anna, ""), p.rule(t, p.bert, "")))
		p.verify(t, authentication(p.rule(t, p.anna, ", forwardOriginalToken: true")))
	}
	stop()
	running.Wait()
	if asked.Load() < 20 {
		t.Errorf("%d requests were made, which says little", asked.Load())
	}
}

// log: a token that is not good is in the log, with what asks for a good one.
func (p *tokenPod) log(t *testing.T) {
	p.verify(t, [3]string{"RequestAuthentication", "default", "{jwtRules: [" + p.rule(t, p.anna, "") + "]}"})
	p.answersTo(t, "another's", "/logged-token", []string{"Authorization", "Bearer " + p.bert.token(t, "u1", nil)}, 401)
	name := fmt.Sprintf("edition-%d-0", p.written)
	err := world.Within(t.Context(), time.Minute, func() error {
		records, err := p.scene.AuditRecords(t.Context(), "reporter:destination", "--limit", "2000")
		for i := range records {
			r := &records[i]
			if r.URLPath == "/logged-token" && r.Verdict == record.Denied && r.Status == 401 && r.DecidedBy.Kind == record.RequestAuthentication && r.DecidedBy.Name == name &&
				strings.Contains(r.Reason, "token") {
				return nil
			}
		}
		return fmt.Errorf("not among %d records: %+v (%w)", len(records), records[max(len(records)-2, 0):], err)
	})
	if err != nil {
		t.Error(err)
	}
}
