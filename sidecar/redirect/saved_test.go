package redirect

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func TestTarget(t *testing.T) {
	for rule, want := range map[string]string{
		`-p tcp -j ISTIO_INBOUND`:                          "ISTIO_INBOUND",
		`-g ISTIO_OUTPUT`:                                  "ISTIO_OUTPUT",
		`-m comment --comment "-j ISTIO_OUTPUT" -j ACCEPT`: "ACCEPT",
		`-m comment --comment "say \"-j X\"" -j ACCEPT`:    "ACCEPT",
		`-m comment --comment "-j" -j ACCEPT`:              "ACCEPT",
		`-p tcp`:                                           "",
		`-j`:                                               "",
		`-m string --string "a \\" --algo bm -j ISTIO_REDIRECT`: "ISTIO_REDIRECT",
	} {
		if got := target(rule); got != want {
			t.Errorf("target(%s) = %q, want %q", rule, got, want)
		}
	}
}

// FuzzSaved: whatever iptables-save prints, the difference to a plan can be computed, and touches our chains only.
func FuzzSaved(f *testing.F) {
	r := newRecorder()
	if _, err := Apply(context.Background(), r, Build(optionsFrom(f)), testDivert, quiet); err != nil {
		f.Fatal(err)
	}
	text, _ := r.Save(context.Background(), IPv4)
	f.Add(text)
	f.Add(foreign)
	f.Add("*nat\n:ISTIO_OUTPUT\n-A\n-A ISTIO_OUTPUT\n-A OUTPUT -j \"ISTIO_OUTPUT\nCOMMIT")
	want := Build(optionsFrom(f)).Families[0].Tables
	f.Fuzz(func(t *testing.T, text string) {
		have := parseSaved(text)
		for line := range strings.Lines(diff(have, want)) {
			words := strings.Fields(line)
			switch {
			case strings.HasPrefix(line, ":"), words[0] == "-X":
				if name := strings.TrimPrefix(words[len(words)-1], ":"); words[0] == "-X" && !isOurs(name) {
					t.Fatalf("removes %q", line)
				}
				if strings.HasPrefix(line, ":") && !isOurs(words[0][1:]) {
					t.Fatalf("flushes %q", line)
				}
			case words[0] == "-D":
				_, rule, _ := strings.Cut(strings.TrimRight(line[3:], "\r\n"), " ")
				if !isOurs(target(rule)) {
					t.Fatalf("deletes %q", line)
				}
			}
		}
		if slices.ContainsFunc(want, func(table Table) bool { return have[table.Name] != nil }) && have.empty() && diff(have, nil) != "" {
			t.Fatal("nothing of ours, but something to remove")
		}
	})
}
