package tokens

import (
	"strings"
	"testing"
)

const rsaKey = `{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB"%s}`

func key(more string) string { return strings.Replace(rsaKey, "%s", more, 1) }

func TestCheckKeys(t *testing.T) {
	for text, good := range map[string]bool{
		`{"keys":[` + key("") + `]}`:                              true,
		`{"keys":[` + key(`,"alg":"PS256"`) + `]}`:                true,
		`{"keys":[{"kty":"new"},` + key("") + `]}`:                true,
		`{"keys":[` + key(`,"alg":"RSA-OAEP","use":"enc"`) + `]}`: false,
		`{"keys":[` + key(`,"alg":"HS256"`) + `]}`:                false,
		`{"keys":[{"kty":"oct","k":"c2VjcmV0","alg":"HS256"}]}`:   true,
		`{"keys":[]}`: false,
		`{}`:          false,
		`[]`:          false,
		`{"keys":[{"kty":"RSA","n":"","e":"AQAB"}]}`:              false,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`: false,
		"-----BEGIN PUBLIC KEY-----":                              false,
		"":                                                        false,
		NoKeys():                                                  true,
	} {
		if err := CheckKeys(text); (err == nil) != good {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}
