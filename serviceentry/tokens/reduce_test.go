package tokens

import (
	"fmt"
	"strings"
	"testing"
)

// TestReadKeys: of what an issuer answers the keys are kept, and no more of them than proxies look at.
func TestReadKeys(t *testing.T) {
	key := strings.TrimSuffix(strings.TrimPrefix(NoKeys(), `{"keys":[`), `]}`)
	padded := strings.Replace(key, "{", `{"x5c":["`+strings.Repeat("A", 100_000)+`"],`, 1)
	got, err := ReadKeys(`{"about":"` + strings.Repeat("x", 100_000) + `","keys":[` + strings.Replace(padded, `"x5c"`, `"note"`, 1) + `,{"kty":"EC","kid":"odd"}]}`)
	if err != nil || len(got) > 1000 || !strings.Contains(got, `"kid":"none"`) || !strings.Contains(got, `"kid":"odd"`) || CheckKeys(got) != nil {
		t.Errorf("%v: %d bytes: %.1000s", err, len(got), got)
	}
	again, err := ReadKeys(got)
	if err != nil || again != got {
		t.Errorf("what was kept is read as something else: %v\n%s\n%s", err, got, again)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = strings.Replace(key, `"none"`, fmt.Sprintf(`"%d"`, i), 1)
	}
	for what, text := range map[string]string{
		"too many":            `{"keys":[` + strings.Join(many, ",") + `]}`,
		"no keys":             `{"keys":[]}`,
		"a key that is none":  `{"keys":["x",` + key + `]}`,
		"something else":      `[]`,
		"no key that is good": `{"keys":[{"kty":"EC","kid":"odd"}]}`,
	} {
		if got, err := ReadKeys(text); err == nil {
			t.Errorf("%s: no error, %.100s", what, got)
		}
	}
}

// TestKeysOfMany: a proxy is given so many bytes of keys; by the rules beyond no token is good.
func TestKeysOfMany(t *testing.T) {
	big := strings.Repeat("k", MostKeyBytes/4)
	var set Set
	for i := range 6 {
		set = append(set, &Authentication{Rules: []Rule{{Issuer: fmt.Sprint(i), Keys: big}}})
	}
	for i, r := range set.Rules() {
		if want := map[bool]string{true: big, false: NoKeys()}[i < 4]; r.Keys != want {
			t.Errorf("rule %d has %d bytes of keys, want %d", i, len(r.Keys), len(want))
		}
	}
	if set[5].Rules[0].Keys != big {
		t.Error("the object's own rule changed")
	}
}
