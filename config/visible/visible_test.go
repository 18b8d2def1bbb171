package visible

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	const acute = "\u0301"
	for in, want := range map[string]string{
		"":                "",
		"api.example.com": "api.example.com",
		"naïve ünï 漢字 – שלום مرحبا नमस्ते": "naïve ünï 漢字 – שלום مرحبا नमस्ते",
		"e" + acute:                    "e" + acute,
		"\x1b[31mred\x1b[0m":           `\x1b[31mred\x1b[0m`,
		"a\nb\tc\rd\x00\x7f":           `a\nb\tc\rd\x00\x7f`,
		"\u009b31m":                    `\u009b31m`, // what begins an escape in one character
		"gpj.\u202eexe":                `gpj.\u202eexe`,
		"a\u2066b\u2069\u200f\u061c":   `a\u2066b\u2069\u200f\u061c`,
		"a\u2028b\u2029c\u0085":        `a\u2028b\u2029c\u0085`,
		"a\u00a0b\u3000c":              `a\u00a0b\u3000c`,
		"a\u200bb\u200dc\ufeff\u00ad":  `a\u200bb\u200dc\ufeff\u00ad`,
		"a\u3164b\uffa0c\u115f\u2800":  `a\u3164b\uffa0c\u115f\u2800`, // letters and symbols without a form
		"a\ufe0fb\U000e0100":           `a\ufe0fb\U000e0100`,
		"\u2764\ufe0f":                 "\u2764\ufe0f",
		"\xff\xfea\xc3":                `\xff\xfea\xc3`,
		"a\ufffd":                      `a\ufffd`,
		acute + "a":                    `\u0301a`,
		"\n" + acute:                   `\n\u0301`,
		"a" + strings.Repeat(acute, 6): "a" + strings.Repeat(acute, 4) + `\u0301\u0301`,
		"a" + strings.Repeat(acute, 5) + "b" + acute: "a" + strings.Repeat(acute, 4) + `\u0301b` + acute,
		"\U0001f600": "\U0001f600",
		"\U000e0041": `\U000e0041`, // a tag
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if lines := strings.ReplaceAll(want, `\n`, "\n"); Lines(in) != lines && !strings.HasPrefix(in, "\n") {
			t.Errorf("%q in lines: %q", in, Lines(in))
		}
	}
}

// FuzzText: what is shown can be read, and is shown alike when it is shown once more.
func FuzzText(f *testing.F) {
	for _, s := range []string{"a", "\x1b[31m", "\u202e", "\xff", "a\u0301\u0301\u0301\u0301\u0301", "\u2764\ufe0f", "\n\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || Text(got) != got {
			t.Errorf("%q: %q", s, got)
		}
		for _, r := range got {
			if !Shows(r) && r != emojiStyle {
				t.Errorf("%q has %q", got, r)
			}
		}
	})
}
