package redirect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
)

// Kernel is what plans are applied to: the network namespace of the calling thread. Every method may be repeated.
type Kernel interface {
	// Save returns iptables-save's output for the family.
	Save(ctx context.Context, f Family) (string, error)
	// Restore gives text to iptables-restore --noflush.
	Restore(ctx context.Context, f Family, text string) error
	// Holds says that there are these chains with as many rules, these jumps, and no rules else. It may say no where that costs more than Save.
	Holds(f Family, tables []Table) bool
	// SetAddress adds an address to the loopback interface, or takes it away. It reports whether that changed anything.
	SetAddress(ctx context.Context, p netip.Prefix, present bool) (changed bool, err error)
	// SetDivert adds the route and rule of TPROXY, or takes them away. It reports whether that changed anything.
	SetDivert(ctx context.Context, f Family, d Divert, present bool) (changed bool, err error)
}

// maxAttempts bounds the rounds of writing and looking again; more than one is needed only if somebody else writes at the
// same time.
const maxAttempts = 3

// Apply makes the kernel agree with the plan and reports whether anything had to change. Rules of others stay as they
// are. A family that is not in the plan is cleared of our rules, where the kernel has it. d is the divert to remove when
// the plan has none.
func Apply(ctx context.Context, k Kernel, plan Plan, d Divert, log *slog.Logger) (bool, error) {
	anyChange := false
	for _, f := range Families {
		want, planned := FamilyPlan{Family: f}, false
		for _, p := range plan.Families {
			if p.Family == f {
				want, planned = p, true
			}
		}
		if !planned && !holdsOurs(ctx, k, f) {
			continue
		}
		changed, err := applyFamily(ctx, k, want, d, log)
		if err != nil {
			return anyChange, err
		}
		anyChange = anyChange || changed
	}
	return anyChange, nil
}

// Clean removes everything that Apply may have written and reports whether there was anything.
func Clean(ctx context.Context, k Kernel, d Divert, log *slog.Logger) (bool, error) {
	anyChange := false
	var errs []error
	for _, f := range Families {
		changed, err := applyFamily(ctx, k, FamilyPlan{Family: f}, d, log)
		anyChange = anyChange || changed
		// A kernel without IPv6 has nothing to remove; IPv4 is always there.
		if err != nil && (f == IPv4 || holdsOurs(ctx, k, f)) {
			errs = append(errs, err)
		}
	}
	return anyChange, errors.Join(errs...)
}

// CleanText is the input for iptables-restore --noflush with which Clean would remove our rules of one family; "" if there
// are none.
func CleanText(ctx context.Context, k Kernel, f Family) (string, error) {
	text, err := k.Save(ctx, f)
	if err != nil {
		return "", err
	}
	return diff(parseSaved(text), nil), nil
}

// AreOurs tells whether there are rules of ours in iptables-save's output.
func AreOurs(saved string) bool { return !parseSaved(saved).empty() }

func holdsOurs(ctx context.Context, k Kernel, f Family) bool {
	text, err := k.Save(ctx, f)
	return err == nil && AreOurs(text)
}

// applyFamily adds what the rules lean on, then the rules; and takes away in the opposite order.
func applyFamily(ctx context.Context, k Kernel, want FamilyPlan, d Divert, log *slog.Logger) (bool, error) {
	anyChange := false
	note := func(changed bool, err error) error {
		anyChange = anyChange || changed
		return err
	}
	for _, a := range want.Addresses {
		if err := note(k.SetAddress(ctx, a, true)); err != nil {
			return anyChange, fmt.Errorf("%s: add address %s to lo: %w", want.Family, a, err)
		}
	}
	if want.Divert != nil {
		if err := note(k.SetDivert(ctx, want.Family, *want.Divert, true)); err != nil {
			return anyChange, fmt.Errorf("%s: add route for mark %d: %w", want.Family, want.Divert.Mark, err)
		}
	}
	if err := note(applyTables(ctx, k, want, log)); err != nil {
		return anyChange, fmt.Errorf("%s: %w", want.Family, err)
	}
	if want.Divert == nil && d != (Divert{}) {
		if err := note(k.SetDivert(ctx, want.Family, d, false)); err != nil {
			return anyChange, fmt.Errorf("%s: remove route for mark %d: %w", want.Family, d.Mark, err)
		}
	}
	if len(want.Addresses) == 0 && want.Family == IPv6 {
		p := netip.MustParsePrefix(IPv6.passthrough())
		if err := note(k.SetAddress(ctx, p, false)); err != nil {
			return anyChange, fmt.Errorf("%s: remove address %s from lo: %w", want.Family, p, err)
		}
	}
	return anyChange, nil
}

// applyTables writes what differs and looks whether the kernel took it.
func applyTables(ctx context.Context, k Kernel, want FamilyPlan, log *slog.Logger) (bool, error) {
	for attempt := range maxAttempts + 1 {
		if attempt > 0 && k.Holds(want.Family, want.Tables) {
			return true, nil
		}
		text, err := k.Save(ctx, want.Family)
		if err != nil {
			return attempt > 0, err
		}
		have := parseSaved(text)
		changes := diff(have, want.Tables)
		if changes == "" || (attempt > 0 && sameShape(have, want.Tables)) {
			return attempt > 0, nil
		}
		if attempt == maxAttempts {
			break
		}
		log.Debug("writing rules", "family", want.Family, "attempt", attempt+1, "restore", changes)
		if err := k.Restore(ctx, want.Family, changes); err != nil {
			return attempt > 0, err
		}
	}
	return true, fmt.Errorf("the rules are not as written after %d attempts: does something else change them?", maxAttempts)
}
