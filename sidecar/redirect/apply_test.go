package redirect

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	quiet      = slog.New(slog.DiscardHandler)
	testDivert = Divert{Mark: 1337, Table: 133}
)

const foreign = `*nat
:DOCKER_OUTPUT - [0:0]
-A DOCKER_OUTPUT -d 127.0.0.11/32 -p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.11:40000
-A OUTPUT -d 127.0.0.11/32 -j DOCKER_OUTPUT
-A PREROUTING -p tcp -m comment --comment "not -j ISTIO_INBOUND" -j ACCEPT
COMMIT
*filter
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
COMMIT
`

func mustApply(t *testing.T, r *recorder, wantChange bool, args ...string) {
	t.Helper()
	changed, err := Apply(context.Background(), r, Build(optionsFrom(t, args...)), testDivert, quiet)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if changed != wantChange {
		t.Errorf("%v: changed is %v, want %v", args, changed, wantChange)
	}
}

func snapshot(t *testing.T, r *recorder) string {
	t.Helper()
	v4, err := r.Save(context.Background(), IPv4)
	if err != nil {
		t.Fatal(err)
	}
	v6, _ := r.Save(context.Background(), IPv6)
	return v4 + v6
}

// TestApplyTwice: the second run writes nothing at all.
func TestApplyTwice(t *testing.T) {
	for _, args := range [][]string{{}, {"-m", "TPROXY"}, {"-i", "10.0.0.0/8,2001:db8::/32", "--block-quic"}, {"-b", "", "-i", ""}} {
		r := newRecorder()
		mustApply(t, r, true, args...)
		before, writes := snapshot(t, r), len(r.restores)
		mustApply(t, r, false, args...)
		if len(r.restores) != writes || snapshot(t, r) != before {
			t.Errorf("%v: the second run wrote %q", args, r.restores[writes:])
		}
	}
}

// TestApplyAnyToAny goes from each set of options to each other one: the result must not depend on what was there, and
// rules of others stay.
func TestApplyAnyToAny(t *testing.T) {
	all := [][]string{{}, {"-m", "TPROXY"}, {"-m", "TPROXY", "-b", "80"}, {"--redirect-dns=false"}, {"--block-quic", "-c", "net1"}, {"-b", ""}}
	for _, to := range all {
		fresh := newRecorder()
		if err := fresh.restore(IPv4, foreign); err != nil {
			t.Fatal(err)
		}
		mustApply(t, fresh, true, to...)
		for _, from := range all {
			r := newRecorder()
			if err := r.restore(IPv4, foreign); err != nil {
				t.Fatal(err)
			}
			mustApply(t, r, true, from...)
			mustApply(t, r, !slices.Equal(from, to), to...)
			for _, f := range Families {
				want := Build(optionsFrom(t, to...)).Families[slices.Index(Families, f)]
				text, _ := r.Save(context.Background(), f)
				if d := diff(parseSaved(text), want.Tables); d != "" {
					t.Errorf("%v to %v: %s still differs by %s", from, to, f, d)
				}
				if got, want := r.diverts[f][testDivert], want.Divert != nil; got != want {
					t.Errorf("%v to %v: %s divert is %v, want %v", from, to, f, got, want)
				}
			}
			if !strings.Contains(snapshot(t, r), "-A OUTPUT -d 127.0.0.11/32 -j DOCKER_OUTPUT\n") {
				t.Errorf("%v to %v: rules of others are gone", from, to)
			}
		}
	}
}

// TestNoMomentWithoutRules: once caught, the jump into the redirects is there after every single write.
func TestNoMomentWithoutRules(t *testing.T) {
	r := newRecorder()
	mustApply(t, r, true)
	for _, args := range [][]string{{"-m", "TPROXY"}, {}, {"-x", "10.0.0.0/8"}, {"--block-quic"}} {
		from := len(r.restores)
		mustApply(t, r, true, args...)
		for _, text := range r.restores[from:] {
			if strings.Contains(text, "-D OUTPUT -j ISTIO_OUTPUT\n") {
				t.Errorf("%v: the jump was taken away:\n%s", args, text)
			}
			// Inbound goes from one table to the other: the new one must be written first.
			gone, come := strings.Index(text, "-D PREROUTING -p tcp"), strings.Index(text, "-A PREROUTING -p tcp")
			if gone >= 0 && come > gone && strings.Contains(text[gone:come], "COMMIT") {
				t.Errorf("%v: inbound is uncaught between two tables:\n%s", args, text)
			}
		}
	}
}

func TestCleanRestoresForeignRules(t *testing.T) {
	r := newRecorder()
	ctx := context.Background()
	if err := r.restore(IPv4, foreign); err != nil {
		t.Fatal(err)
	}
	mustApply(t, r, true, "-m", "TPROXY", "--block-quic")
	mustApply(t, r, true)
	if changed, err := Clean(ctx, r, testDivert, quiet); err != nil || !changed {
		t.Fatalf("clean: %v, %v", changed, err)
	}
	got, err := r.Save(ctx, IPv4)
	if err != nil {
		t.Fatal(err)
	}
	fresh := newRecorder()
	for name := range r.tables[IPv4] {
		fresh.tables[IPv4][name] = (*recordedTable)(nil).clone()
	}
	if err := fresh.restore(IPv4, foreign); err != nil {
		t.Fatal(err)
	}
	want, _ := fresh.Save(ctx, IPv4)
	if got != want {
		t.Errorf("not as before:\n%s", cmp.Diff(want, got))
	}
	for p, present := range r.addresses {
		if present {
			t.Errorf("address %s is left", p)
		}
	}
	writes := len(r.restores)
	if changed, err := Clean(ctx, r, testDivert, quiet); err != nil || changed || len(r.restores) != writes {
		t.Errorf("second clean: changed %v, %v", changed, err)
	}
}

// TestApplyMends a state that somebody spoiled.
func TestApplyMends(t *testing.T) {
	for name, spoil := range map[string]string{
		"doubled jump":     "*nat\n-A OUTPUT -j ISTIO_OUTPUT\nCOMMIT\n",
		"jump gone":        "*nat\n-D OUTPUT -j ISTIO_OUTPUT\nCOMMIT\n",
		"own chain empty":  "*nat\n:ISTIO_OUTPUT - [0:0]\nCOMMIT\n",
		"rule too many":    "*nat\n-A ISTIO_OUTPUT -j RETURN\nCOMMIT\n",
		"jump of old form": "*nat\n-A OUTPUT -p tcp -j ISTIO_OUTPUT\nCOMMIT\n",
		"left-over chain":  "*mangle\n:ISTIO_DIVERT - [0:0]\n-A ISTIO_DIVERT -j ACCEPT\nCOMMIT\n",
	} {
		r := newRecorder()
		mustApply(t, r, true)
		if err := r.restore(IPv4, spoil); err != nil {
			t.Fatal(err)
		}
		mustApply(t, r, true)
		text, _ := r.Save(context.Background(), IPv4)
		if d := diff(parseSaved(text), Build(optionsFrom(t)).Families[0].Tables); d != "" {
			t.Errorf("%s: still differs by %s", name, d)
		}
	}
}

// TestApplyGivesUp when somebody else undoes every write.
func TestApplyGivesUp(t *testing.T) {
	r := newRecorder()
	r.beforeSave = func() { r.tables[IPv4] = map[string]*recordedTable{} }
	_, err := Apply(context.Background(), r, Build(optionsFrom(t)), testDivert, quiet)
	if err == nil || !strings.Contains(err.Error(), "after 3 attempts") || len(r.restores) != maxAttempts+1 { // once of IPv6's
		t.Errorf("got %v after %d writes", err, len(r.restores))
	}
}

// TestApplyWithoutIPv6 leaves a kernel alone that cannot do IPv6, and clears a family that is no longer asked for.
func TestApplyWithoutIPv6(t *testing.T) {
	o := optionsFrom(t)
	o.IPv6 = false
	r := newRecorder()
	mustApply(t, r, true)
	if changed, err := Apply(context.Background(), r, Build(o), testDivert, quiet); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if holdsOurs(context.Background(), r, IPv6) || !holdsOurs(context.Background(), r, IPv4) {
		t.Error("want rules for IPv4 alone")
	}
	r.saveErr[IPv6] = errors.New("no IPv6 here")
	if _, err := Apply(context.Background(), r, Build(o), testDivert, quiet); err != nil {
		t.Error(err)
	}
	if _, err := Clean(context.Background(), r, testDivert, quiet); err != nil {
		t.Error(err)
	}
	if _, err := Apply(context.Background(), r, Build(optionsFrom(t)), testDivert, quiet); err == nil {
		t.Error("IPv6 was asked for and could not be had, want an error")
	}
	r = newRecorder()
	r.saveErr[IPv6] = errors.New("no IPv6 here")
	if _, err := Apply(context.Background(), r, Build(optionsFrom(t)), testDivert, quiet); err == nil || !holdsOurs(context.Background(), r, IPv4) {
		t.Errorf("IPv6 cannot be had (%v): want an error, and rules for IPv4 all the same", err)
	}
}
