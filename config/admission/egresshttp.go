package admission

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// ruleHTTP judges what a rule asks of HTTP requests.
func (r *report) ruleHTTP(field string, rule *v1alpha1.Rule) {
	asked := strings.Join(httpFields(rule), ", ")
	for i, p := range rule.Protocols {
		if asked != "" && p != protocolHTTP && ruleProtocol[p] != nil {
			r.reject(at(field, "protocols", i), p, fmt.Sprintf("a proxy sees no %s in it, so the rule matches none of it", asked), fmt.Sprintf("write %s alone, or remove %s", protocolHTTP, asked))
		}
	}
	r.atMost(at(field, "methods"), len(rule.Methods), maxRuleMethods, "methods", "")
	r.eachOnce(at(field, "methods"), rule.Methods)
	for i, m := range rule.Methods {
		r.ruleMethod(at(field, "methods", i), m)
	}
	r.atMost(at(field, "paths"), len(rule.Paths), maxRulePaths, "paths", "and the rest into another rule")
	r.eachOnce(at(field, "paths"), rule.Paths)
	for i, p := range rule.Paths {
		r.rulePath(at(field, "paths", i), p)
	}
	r.atMost(at(field, "headers"), len(rule.Headers), maxRuleHeaders, "headers", "")
	for i, h := range rule.Headers {
		r.ruleHeader(at(field, "headers", i), h)
	}
}

// httpFields names the fields of a rule that only HTTP has.
func httpFields(rule *v1alpha1.Rule) (names []string) {
	for _, f := range []struct {
		name string
		n    int
	}{{"methods", len(rule.Methods)}, {"paths", len(rule.Paths)}, {"headers", len(rule.Headers)}} {
		if f.n > 0 {
			names = append(names, f.name)
		}
	}
	return names
}

// token is what methods and names of headers are made of (RFC 9110 section 5.6.2).
var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

const maxMethod = 32

// ruleMethod rejects what no request can have: methods are compared with regard to case, and all that are registered are in
// upper case.
func (r *report) ruleMethod(field, value string) {
	switch {
	case value == "*":
		r.reject(field, value, "is no method", "remove methods to mean all of them")
	case len(value) > maxMethod || !token.MatchString(value):
		r.reject(field, value, "is no method", `write it as in "GET"`)
	case value != strings.ToUpper(value):
		r.reject(field, value, "methods are in upper case", fmt.Sprintf("write %q", strings.ToUpper(value)))
	}
}

// rulePath rejects patterns that are no path, and those that are in no normal form: requests with such a path match no rule.
func (r *report) rulePath(field, value string) {
	switch {
	case !strings.HasPrefix(value, "/"):
		r.reject(field, value, `does not begin with "/"`, fmt.Sprintf("write %q", "/"+value))
	case len(value) > maxRulePattern:
		r.reject(field, value, fmt.Sprintf("it has %d bytes, at most %d are allowed", len(value), maxRulePattern), "shorten it")
	case strings.ContainsAny(value, "?#"):
		r.reject(field, value, "paths are compared without query and fragment", fmt.Sprintf("write %q", value[:strings.IndexAny(value, "?#")]))
	case strings.IndexFunc(value, func(c rune) bool { return c <= ' ' || c >= unicode.MaxASCII }) >= 0:
		r.reject(field, value, "holds characters that no request's path has", "write them percent-encoded, as clients do")
	case brokenEscape.MatchString(value):
		r.reject(field, value, `holds "%" without two hexadecimal digits`, "write the path as clients send it")
	case unclearEscape.MatchString(value):
		r.reject(field, value, "servers differ in what such a path is, so no request with one is allowed", fmt.Sprintf("remove %q", unclearEscape.FindString(value)))
	case normalPath(value) != value:
		r.reject(field, value, "is not in normal form, so no request matches it", fmt.Sprintf("write %q", normalPath(value)))
	default:
		for segment := range strings.SplitSeq(value, "/") {
			if segment != "**" && strings.Contains(segment, "**") {
				r.reject(field, value, `"**" stands for whole segments`, `write it between slashes or at the end, as in "/v1/**"; "*" stands for a part of one`)
				return
			}
		}
	}
}

var (
	brokenEscape = regexp.MustCompile(`%(?:[^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)`)
	// unclearEscape is one of a control character, of "%", or of bytes that are no UTF-8 and that some servers read all the same (egresspolicy.Abnormal).
	unclearEscape = regexp.MustCompile(`%(?:[01][0-9A-Fa-f]|25|7[fF]|[cC][01]|[eE]0%[89]|[fF]0%8)`)
	escape        = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	parameters    = regexp.MustCompile(`;[^/]*`)
	// plainForm is what is written as it is, or means a slash or parameters to some servers.
	plainForm = regexp.MustCompile(`^[0-9A-Za-z._~/;\\-]$`)
)

// normalPath is a path as rules and requests have to write it: slashes are "/" and alone, there are no dot segments and no
// parameters, and neither these nor what needs no escape is escaped (RFC 3986 section 6.2.2).
func normalPath(p string) string {
	p = escape.ReplaceAllStringFunc(p, func(e string) string {
		if plain, err := url.PathUnescape(e); err == nil && plainForm.MatchString(plain) {
			return plain
		}
		return e
	})
	p = parameters.ReplaceAllString(strings.ReplaceAll(p, `\`, "/"), "")
	clean := path.Clean(p)
	if clean != "/" && (strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..")) {
		clean += "/"
	}
	return clean
}

// ruleHeader judges a header that requests must have.
func (r *report) ruleHeader(field string, h *v1alpha1.HeaderMatch) {
	name := strings.ToLower(h.Name)
	switch {
	case h.Name == "":
		r.reject(at(field, "name"), nil, "it is missing", "write a header's name")
	case strings.HasPrefix(name, ":"):
		r.reject(at(field, "name"), h.Name, "is no header", cmp.Or(insteadOf[name], "write the name of a header that requests have"))
	case name == "host":
		r.reject(at(field, "name"), h.Name, "the host is no header here", "use hosts")
	case len(h.Name) > maxHeaderLength || !token.MatchString(h.Name):
		r.reject(at(field, "name"), h.Name, "is no header's name", `write it as in "x-api-version"`)
	}
	switch {
	case h.Value == "":
		r.reject(at(field, "value"), nil, "it is missing", `write "*" to ask that the header is there`)
	case len(h.Value) > maxRulePattern:
		r.reject(at(field, "value"), h.Value, fmt.Sprintf("it has %d bytes, at most %d are allowed", len(h.Value), maxRulePattern), "shorten it")
	case strings.IndexFunc(h.Value, unicode.IsControl) >= 0:
		r.reject(at(field, "value"), h.Value, "it holds control characters", "write what the header's value shows")
	case strings.TrimSpace(h.Value) != h.Value:
		r.reject(at(field, "value"), h.Value, "proxies take spaces around a value away", fmt.Sprintf("write %q", strings.TrimSpace(h.Value)))
	}
}

// insteadOf are the fields of a rule for what HTTP/2 has as pseudo headers.
var insteadOf = map[string]string{":method": "use methods", ":path": "use paths", ":authority": "use hosts", ":scheme": "use protocols"}
