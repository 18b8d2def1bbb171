package visible

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestJSON: what a terminal obeys, or turns, is escaped, all else stays, and it says the same.
func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		"a.test": `"a.test"`, "naïve 漢字 שלום \U0001f600": `"naïve 漢字 שלום ` + "\U0001f600" + `"`, "\x1b[31m": `"\u001b[31m"`, "\u009b31m": `"\u009b31m"`, "\x7f": `"\u007f"`,
		"gpj.\u202eexe": `"gpj.\u202eexe"`, "a\u200bb": `"a\u200bb"`, "\U000e0041": `"\udb40\udc41"`, "\ufffd": "\"\ufffd\"",
	} {
		var b bytes.Buffer
		if err := json.NewEncoder(JSON(&b)).Encode(in); err != nil {
			t.Fatal(err)
		}
		var again string
		if got := strings.TrimSuffix(b.String(), "\n"); got != want || json.Unmarshal(b.Bytes(), &again) != nil || again != in {
			t.Errorf("%q is %s, which says %q", in, got, again)
		}
	}
}
