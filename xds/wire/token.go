package wire

import "strings"

// TokenDenied begins Envoy's response code details of a request whose token is not good; why follows in braces.
const TokenDenied = "jwt_authn_access_denied"

// TokenReason says why a token is not good, as records do, by such details; false of others.
func TokenReason(details string) (string, bool) {
	why, is := strings.CutPrefix(details, TokenDenied)
	if !is {
		return "", false
	}
	return "its token is not good: " + strings.ReplaceAll(strings.Trim(why, "{}"), "_", " "), true
}
