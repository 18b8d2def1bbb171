package route

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// maxProgram bounds what an expression becomes in Envoy, in instructions of RE2: above 32,768 Envoy refuses all that comes with it
// (sidecar/bootstrap sets that). It is counted generously.
const maxProgram = 20_000

// Envoy's RE2 reads bytes, as Latin-1: "." is one of them, and "ä" two. So expressions and values are read here, too.

// CheckRegex says why an expression is not taken: RE2 does not know it, or it is too large.
func CheckRegex(expr string) error {
	if beyondLatin1(expr) {
		return errors.New("proxies read bytes, and \\x{…} beyond ff is none")
	}
	expr = latin1(expr)
	if _, err := regexp.Compile(expr); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return err
	}
	size := 0
	for i := range prog.Inst {
		if size += instructions(&prog.Inst[i]); size > maxProgram {
			return errors.New("what it becomes is too large for a proxy: shorten it, or repeat less")
		}
	}
	return nil
}

// Groups is how many groups an expression has, which is one (CheckRegex).
func Groups(expr string) int { return regexp.MustCompile(latin1(expr)).NumSubexp() }

// instructions is about how many RE2 makes of one of Go's: one a range of bytes.
func instructions(i *syntax.Inst) int {
	n := 1
	if i.Op == syntax.InstRune {
		for at := 0; at < len(i.Rune) && i.Rune[at] <= 0xff; at += 2 {
			n++
		}
	}
	return n + 1
}

// latin1 is a text whose characters are the bytes of another one.
func latin1(s string) string {
	ascii := true
	for i := 0; i < len(s); i++ {
		ascii = ascii && s[i] < 0x80
	}
	if ascii {
		return s
	}
	out := make([]rune, len(s))
	for i := range out {
		out[i] = rune(s[i])
	}
	return string(out)
}

var escaped = regexp.MustCompile(`\\x\{([0-9A-Fa-f]*)\}`)

// beyondLatin1 says whether an expression names a character that is no byte.
func beyondLatin1(expr string) bool {
	return slices.ContainsFunc(escaped.FindAllStringSubmatch(expr, -1), func(m []string) bool {
		return len(strings.TrimLeft(m[1], "0")) > 2
	})
}
