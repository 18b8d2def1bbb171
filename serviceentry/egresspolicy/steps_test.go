package egresspolicy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
)

// TestStepsAgree: the step that decides says what the set says, whatever the policies.
func TestStepsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(n int) bool { return rng.IntN(n) == 0 }
	level := func(ns string) (l Level) {
		for i := range rng.IntN(4) {
			p := &Policy{Key: config.Key{Namespace: ns, Name: fmt.Sprint("p", i)}, Observe: pick(3), Default: Action(rng.IntN(6) % 3)}
			for j := range rng.IntN(4) {
				r := Rule{Name: fmt.Sprint("r", j), Action: Allow + Action(rng.IntN(2)), Final: pick(4)}
				if pick(2) {
					r.Hosts = []string{"other.test"}
				}
				if pick(3) {
					r.Methods = []string{"POST"}
				}
				if pick(4) {
					r.Paths = []string{"/v1/*"}
				}
				if pick(5) {
					r.Until = time.Unix(1, 0)
				}
				p.Rules = append(p.Rules, r)
			}
			l = append(l, p)
		}
		return l
	}
	decided, would := 0, 0
	for range 20_000 {
		s := Set{level("root"), level("own")}
		a := &Attempt{Host: "a.test", Port: 80, Protocol: HTTP, Method: "GET", Path: []string{"/", "/v1/x", "/v1//x"}[rng.IntN(3)], At: time.Unix(100, 0)}
		steps := s.Steps(a)
		for _, want := range []struct {
			Ruling
			is    func(Step) bool
			count *int
		}{{s.Enforced().Rule(a), func(s Step) bool { return s.Decides }, &decided}, {s.Rule(a), func(s Step) bool { return s.Would }, &would}} {
			i := slices.IndexFunc(steps, want.is)
			switch {
			case want.Policy == nil && i < 0:
			case i < 0 || steps[i].Ruling != want.Ruling || steps[i].Miss != Hit:
				t.Fatalf("%+v: want %+v in %+v", s, want.Ruling, steps)
			default:
				*want.count++
			}
		}
	}
	if decided < 1000 || would < 1000 {
		t.Errorf("too few that anything decides: %d, %d", decided, would)
	}
}
