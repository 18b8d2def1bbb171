package interpret

import (
	"regexp"
	"strings"
	"sync"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// matchString holds a text against a matcher.
func matchString(m *matcherv3.StringMatcher, text string) bool {
	fold := func(s string) string {
		if m.IgnoreCase {
			return strings.ToLower(s)
		}
		return s
	}
	switch p := m.MatchPattern.(type) {
	case *matcherv3.StringMatcher_Exact:
		return fold(text) == fold(p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(text), fold(p.Prefix))
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(text), fold(p.Suffix))
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(fold(text), fold(p.Contains))
	case *matcherv3.StringMatcher_SafeRegex:
		return matchRegex(p.SafeRegex.Regex, text) // ignore_case does not count for it
	default:
		unknown("StringMatcher: %T", p)
		return false
	}
}

// matchStringOf is the same for the matcher's other home.
func matchStringOf(m *cncfmatcherv3.StringMatcher, text string) bool {
	switch p := m.MatchPattern.(type) {
	case *cncfmatcherv3.StringMatcher_Exact:
		return text == p.Exact
	case *cncfmatcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(text, p.Prefix)
	case *cncfmatcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(text, p.Suffix)
	case *cncfmatcherv3.StringMatcher_Contains:
		return strings.Contains(text, p.Contains)
	case *cncfmatcherv3.StringMatcher_SafeRegex:
		return matchRegex(p.SafeRegex.Regex, text)
	default:
		unknown("xds.type.matcher.v3.StringMatcher: %T", p)
		return false
	}
}

var regexes sync.Map // of their text

// matchRegex holds the whole of a text against an expression (RE2).
func matchRegex(expression, text string) bool { return compiled(expression).MatchString(text) }

func compiled(expression string) *regexp.Regexp {
	if r, ok := regexes.Load(expression); ok {
		return r.(*regexp.Regexp)
	}
	r, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	if err != nil {
		unknown("the expression %q: %v", expression, err)
	}
	regexes.Store(expression, r)
	return r
}

// compiledPart is an expression that may match a part of a text.
func compiledPart(expression string) *regexp.Regexp {
	const key = "part:"
	if r, ok := regexes.Load(key + expression); ok {
		return r.(*regexp.Regexp)
	}
	r, err := regexp.Compile(expression)
	if err != nil {
		unknown("the expression %q: %v", expression, err)
	}
	regexes.Store(key+expression, r)
	return r
}
