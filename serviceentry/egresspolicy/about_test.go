package egresspolicy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// TestAbout: of the hosts that a level is asked about the same rule decides as of the whole level, and about others nothing is open that was denied.
func TestAbout(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	hosts := []string{"a.test", "b.test", "x.c.test", "d.test"}
	patterns := append([]string{"*", "*.test", "*.c.test"}, hosts...)
	pick := func(of []string) string { return of[rng.IntN(len(of))] }
	left, denied := 0, 0
	for range 5000 {
		var level egresspolicy.Level
		for i := range 1 + rng.IntN(3) {
			p := &egresspolicy.Policy{Key: config.Key{Name: fmt.Sprint("p", i)}, Revision: "1", Default: egresspolicy.Action(rng.IntN(3))}
			if rng.IntN(2) == 0 {
				p.Default = egresspolicy.Unset
			}
			for j := range rng.IntN(4) {
				r := egresspolicy.Rule{Name: fmt.Sprint("r", j), Action: egresspolicy.Allow}
				if rng.IntN(3) == 0 {
					r.Action = egresspolicy.Deny
				}
				for range rng.IntN(3) {
					r.Hosts = append(r.Hosts, pick(patterns))
				}
				if rng.IntN(4) == 0 {
					r.Paths = []string{"/x/**"}
				}
				p.Rules = append(p.Rules, r)
			}
			level = append(level, p)
		}
		about := []string{pick(hosts), pick(hosts)}
		less := level.About(about)
		for _, h := range hosts {
			for _, path := range []string{"/x/y", "/z", "/x/../z"} {
				asked := &egresspolicy.Attempt{Host: h, Protocol: egresspolicy.HTTP, Path: path}
				was, now := level.Rule(asked), less.Rule(asked)
				left += len(level[0].Rules) - len(less[0].Rules)
				switch {
				case h != about[0] && h != about[1]:
					if denied++; was.Action == egresspolicy.Deny && now.Action != egresspolicy.Deny {
						t.Fatalf("about %v, %s%s is denied by the level, and not by %+v", about, h, path, less)
					}
				case was.Action != now.Action || was.Path != now.Path || (was.Policy == nil) != (now.Policy == nil) || was.Policy != nil && (was.Policy.Key != now.Policy.Key || was.RuleName() != now.RuleName()):
					t.Fatalf("about %v, of %s%s the level says %+v, and less of it %+v", about, h, path, was, now)
				case now.Rule != nil && now.Policy.Revision != was.Policy.Revision:
					t.Fatalf("rule %s has revision %q", now.RuleName(), now.Policy.Revision)
				}
			}
		}
	}
	if left == 0 || denied == 0 {
		t.Error("nothing was left out, or nothing else asked about")
	}
}
