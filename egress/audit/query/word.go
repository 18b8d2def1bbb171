package query

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// otherQuotes are those that others write around what has spaces. A value that begins with one stands in quotes of ours.
const otherQuotes = "'`‘’“”„«»"

// firstWord is a text up to its first space.
func firstWord(text string) string {
	if end := strings.IndexFunc(text, unicode.IsSpace); end >= 0 {
		return text[:end]
	}
	return text
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// mayBeOfHost refuses a word without a key that looks like another language's: it would be looked for in hosts, and as no host has it, nothing be found, as if
// nothing had been there. In quotes anything is looked for.
func mayBeOfHost(word string) error {
	switch strings.TrimPrefix(word, "-") {
	case "AND", "OR", "NOT":
		return fmt.Errorf("filter %q: all terms have to hold; alternatives are host:a,b, and what must not hold is -host:a", word)
	}
	quoted := false
	for i, r := range word {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted, unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), strings.ContainsRune(`.-_*?:[]%,\`, r):
		default:
			return fmt.Errorf("filter %q: no host has %q: write KEY:VALUE, such as host:a.test, and in quotes what is to be looked for as it is", word, word[i:i+len(string(r))])
		}
	}
	return nil
}
