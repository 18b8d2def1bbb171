package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// Run says how Apply and Clean go about it.
type Run struct {
	Wait time.Duration // for locks that others hold
	Log  *slog.Logger
	// DryRun makes Clean print to Out what it would remove, and remove nothing.
	DryRun bool
	Out    io.Writer
}

// Apply writes the plan into the network namespace of the calling thread. The divert is taken away if the plan has none.
func Apply(ctx context.Context, plan redirect.Plan, divert redirect.Divert, r Run) error {
	release, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	for _, note := range plan.Notes {
		r.Log.Warn(note)
	}
	backends, err := Backends(ctx, r.Wait)
	if err != nil {
		return err
	}
	b, err := Choose(ctx, backends, r.Log)
	if err != nil {
		return err
	}
	changed, err := redirect.Apply(ctx, b, plan, divert, r.Log)
	if err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	r.Log.Info("traffic is caught", "changed", changed, "iptables", b.Mode(), "families", len(plan.Families))
	return nil
}

// Clean removes what Apply wrote, from every kind of iptables that is installed.
func Clean(ctx context.Context, divert redirect.Divert, r Run) error {
	release, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	backends, err := Backends(ctx, r.Wait)
	if err != nil {
		return err
	}
	if r.DryRun {
		return r.printClean(ctx, backends)
	}
	anyChange, worked := false, false
	var errs []error
	for _, b := range backends {
		if _, err := b.Save(ctx, redirect.IPv4); err != nil {
			errs = append(errs, err) // not supported by this kernel, so nothing of ours is in it
			continue
		}
		worked = true
		changed, err := redirect.Clean(ctx, b, divert, r.Log)
		if err != nil {
			return fmt.Errorf("remove the rules: %w", err)
		}
		anyChange = anyChange || changed
	}
	if !worked {
		return fmt.Errorf("no iptables works here (is NET_ADMIN granted?): %w", errors.Join(errs...))
	}
	r.Log.Info("traffic is not caught", "changed", anyChange)
	return nil
}

func (r Run) printClean(ctx context.Context, backends []*Backend) error {
	for _, b := range backends {
		for _, f := range redirect.Families {
			text, err := redirect.CleanText(ctx, b, f)
			if err != nil {
				r.Log.Debug("cannot look", "iptables", b.Mode(), "family", f, "error", err)
				continue
			}
			if text == "" {
				continue
			}
			if _, err := fmt.Fprintf(r.Out, "# %s --noflush\n%s", b.program(f, "-restore"), text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r Run) lock(ctx context.Context) (func(), error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Wait, fmt.Errorf("waited %s", r.Wait))
	defer cancel()
	return Lock(ctx)
}
