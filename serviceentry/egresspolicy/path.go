package egresspolicy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Abnormal is an expression (RE2) for paths, whatever their queries, that servers may take for others: what decides about a
// path would decide about another one than is served. RFC 3986 sections 5.2.4 and 6.2.2; "%25" hides a second decoding, ";"
// what servlets cut off, and "\" is "/" to some. So is what no path has: another beginning than "/", spaces and control characters, also as escapes (Envoy lets tabs and form feeds pass, and who reads
// paths as browsers do takes them out), other bytes that should have been escaped, a "%" that begins no escape ("%u002f"), and bytes that are no UTF-8 but read as other characters by lenient decoders
// (RFC 3629 section 10: "%c0%af" is "/").
const Abnormal = `[^/].*|[^?]*(//|/\.\.?(/|\?|$)|[\\;]|[^!-~]|%([01][0-9a-fA-F]|25|2[dDeEfF]|3[0-9bB]|4[1-9a-fA-F]|5[0-9aAcCfF]|6[1-9a-fA-F]|7[0-9aAeEfF]|[cC][01]|[eE]0%[89]|[fF]0%8|[0-9a-fA-F]?([^0-9a-fA-F]|$))).*`

var abnormal = regexp.MustCompile(`^(?:` + Abnormal + `)$`)

// IsNormal says whether a path, without its query, has one meaning.
func IsNormal(path string) bool { return path != "" && !abnormal.MatchString(path) }

// PathRegex is an expression (RE2) for the paths, without their queries, that a rule's path means. A rule that denies means also
// what differs in case, or in a slash at the end: servers may take it for the same. It may be held against a path with its query, of
// which it means nothing.
func PathRegex(pattern string, denies bool) string {
	var b strings.Builder
	if denies {
		b.WriteString("(?i)")
	}
	rest := pattern
	if denies {
		rest = strings.TrimSuffix(rest, "/")
	}
	for rest != "" {
		switch {
		case rest == "/**":
			b.WriteString("(/[^?]*)?")
			rest = ""
		case strings.HasPrefix(rest, "/**/"):
			b.WriteString("(/[^?]*)?")
			rest = rest[len("/**"):]
		case strings.HasPrefix(rest, "**"):
			b.WriteString("[^?]*")
			rest = rest[2:]
		case rest[0] == '*':
			b.WriteString("[^/?]+")
			rest = rest[1:]
		default:
			end := strings.IndexByte(rest[1:], '*') + 1
			if end == 0 {
				end = len(rest)
			}
			if end < len(rest) && strings.HasPrefix(rest[end:], "**") && rest[end-1] == '/' && end > 1 {
				end-- // the slash belongs to "/**"
			}
			b.WriteString(literal(rest[:end], denies))
			rest = rest[end:]
		}
	}
	if denies {
		b.WriteString("/?")
	}
	return b.String()
}

// literal is an expression for a part of a path as it is written, and, of a rule that denies, also with its signs as escapes, or the
// other way round: to servers that is the same. Letters and digits as escapes are abnormal.
func literal(part string, denies bool) string {
	if !denies {
		return regexp.QuoteMeta(part)
	}
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '%' && i+2 < len(part) {
			if n, err := strconv.ParseUint(part[i+1:i+3], 16, 8); err == nil {
				c, i = byte(n), i+2
			}
		}
		switch quoted := regexp.QuoteMeta(string(rune(c))); {
		case c <= ' ' || c > '~' || c == '?': // paths have it as an escape only
			fmt.Fprintf(&b, "%%%02X", c)
		case isSign(c):
			fmt.Fprintf(&b, "(%s|%%%02X)", quoted, c)
		default:
			b.WriteString(quoted)
		}
	}
	return b.String()
}

func isSign(c byte) bool {
	return !strings.ContainsRune("-._~/", rune(c)) && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z')
}

var compiled sync.Map // expression → *regexp.Regexp

// Matches says whether all of a text is what an expression (RE2) means.
func Matches(expression, text string) bool {
	re, ok := compiled.Load(expression)
	if !ok {
		re, _ = compiled.LoadOrStore(expression, regexp.MustCompile(`^(?:`+expression+`)$`))
	}
	return re.(*regexp.Regexp).MatchString(text)
}

// MethodsRegex is an expression (RE2) for the methods that a rule means. What denies means them in all letters: by HTTP/2 a client may write "delete", which many servers read as "DELETE".
func MethodsRegex(methods []string, denies bool) string {
	quoted := make([]string, len(methods))
	for i, m := range methods {
		quoted[i] = regexp.QuoteMeta(m)
	}
	text := strings.Join(quoted, "|")
	if denies {
		return "(?i)(" + text + ")"
	}
	return text
}

// ValueRegex is an expression for the values of a header that a rule means. What is denied is also meant as one of several, which a client may send as lines of their own, or between commas: servers read the
// first, the last, or all of them.
func ValueRegex(value string, denied bool) string {
	parts := strings.Split(value, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	one := strings.Join(parts, ".*")
	if denied {
		return `(.*,[ \t]*)?` + one + `([ \t]*,.*)?`
	}
	return one
}
