package redirect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
)

// Kernel is what plans are applied to: the network namespace of the calling thread. Every method may be repeated.
type Kernel interface {
	// Save returns iptables-save's output for the family.
	Save(ctx context.Context, f Family) (string, error)
	// Restore gives each family's text to its iptables-restore --noflush, side by side.
	Restore(ctx context.Context, texts map[Family]string) error
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
// the plan has none. Rules of all families are written side by side.
func Apply(ctx context.Context, k Kernel, plan Plan, d Divert, log *slog.Logger) (bool, error) {
	var wants []FamilyPlan
	for _, f := range Families {
		want, planned := FamilyPlan{Family: f}, false
		for _, p := range plan.Families {
			if p.Family == f {
				want, planned = p, true
			}
		}
		if planned || holdsOurs(ctx, k, f) {
			wants = append(wants, want)
		}
	}
	return applyFamilies(ctx, k, wants, d, log)
}

// Clean removes everything that Apply may have written and reports whether there was anything.
func Clean(ctx context.Context, k Kernel, d Divert, log *slog.Logger) (bool, error) {
	anyChange := false
	var errs []error
	for _, f := range Families {
		changed, err := applyFamilies(ctx, k, []FamilyPlan{{Family: f}}, d, log)
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

// applyFamilies adds what the rules lean on, then the rules; and takes away in the opposite order. Where that fails for a family, the rules of the others are written all the same.
func applyFamilies(ctx context.Context, k Kernel, wants []FamilyPlan, d Divert, log *slog.Logger) (anyChange bool, err error) {
	var errs []error
	each := func(do func(want FamilyPlan) (changed bool, err error)) {
		wants = slices.DeleteFunc(slices.Clone(wants), func(want FamilyPlan) bool {
			changed, err := do(want)
			if anyChange = anyChange || changed; err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", want.Family, err))
			}
			return err != nil
		})
	}
	each(func(want FamilyPlan) (bool, error) { return addWhatRulesLeanOn(ctx, k, want) })
	changed, err := applyTables(ctx, k, wants, log)
	if anyChange = anyChange || changed; err != nil {
		return anyChange, errors.Join(append(errs, err)...)
	}
	each(func(want FamilyPlan) (bool, error) { return removeWhatRulesLeanedOn(ctx, k, want, d) })
	return anyChange, errors.Join(errs...)
}

func addWhatRulesLeanOn(ctx context.Context, k Kernel, want FamilyPlan) (anyChange bool, err error) {
	for _, a := range want.Addresses {
		changed, err := k.SetAddress(ctx, a, true)
		if anyChange = anyChange || changed; err != nil {
			return anyChange, fmt.Errorf("add address %s to lo: %w", a, err)
		}
	}
	if want.Divert == nil {
		return anyChange, nil
	}
	changed, err := k.SetDivert(ctx, want.Family, *want.Divert, true)
	if err != nil {
		err = fmt.Errorf("add route for mark %d: %w", want.Divert.Mark, err)
	}
	return anyChange || changed, err
}

func removeWhatRulesLeanedOn(ctx context.Context, k Kernel, want FamilyPlan, d Divert) (anyChange bool, err error) {
	if want.Divert == nil && d != (Divert{}) {
		changed, err := k.SetDivert(ctx, want.Family, d, false)
		if anyChange = changed; err != nil {
			return anyChange, fmt.Errorf("remove route for mark %d: %w", d.Mark, err)
		}
	}
	if len(want.Addresses) > 0 || want.Family != IPv6 {
		return anyChange, nil
	}
	p := netip.MustParsePrefix(IPv6.passthrough())
	changed, err := k.SetAddress(ctx, p, false)
	if err != nil {
		err = fmt.Errorf("remove address %s from lo: %w", p, err)
	}
	return anyChange || changed, err
}

// applyTables writes what differs, and looks whether the kernel took it. A family whose rules are as they should be is done with.
func applyTables(ctx context.Context, k Kernel, wants []FamilyPlan, log *slog.Logger) (anyChange bool, err error) {
	var errs []error // of families of which the kernel does not say what there is
	for attempt := range maxAttempts + 1 {
		texts, left := map[Family]string{}, []FamilyPlan(nil)
		for _, want := range wants {
			changes, err := lacks(ctx, k, want, attempt > 0)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", want.Family, err))
			} else if changes != "" {
				texts[want.Family], left = changes, append(left, want)
				log.Debug("writing rules", "family", want.Family, "attempt", attempt+1, "restore", changes)
			}
		}
		if wants = left; len(left) == 0 {
			return anyChange, errors.Join(errs...)
		}
		if attempt < maxAttempts {
			anyChange = true
			if err := k.Restore(ctx, texts); err != nil {
				return anyChange, errors.Join(append(errs, err)...)
			}
		}
	}
	return anyChange, errors.Join(append(errs, fmt.Errorf("%s: the rules are not as written after %d attempts: does something else change them?", wants[0].Family, maxAttempts))...)
}

// lacks is what a family's tables differ by; "" where they are as they should be. After they were written, it is enough that they have the shape: an iptables may word a rule otherwise.
func lacks(ctx context.Context, k Kernel, want FamilyPlan, written bool) (string, error) {
	if written && k.Holds(want.Family, want.Tables) {
		return "", nil
	}
	text, err := k.Save(ctx, want.Family)
	if err != nil {
		return "", err
	}
	have := parseSaved(text)
	if written && sameShape(have, want.Tables) {
		return "", nil
	}
	return diff(have, want.Tables), nil
}
