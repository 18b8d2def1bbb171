package kube

import (
	"context"
	"log/slog"
)

// lowered makes debugging output of what client-go logs: what a user needs to know of it is a finding, said once, and
// not an error for each kind and try.
type lowered struct{ slog.Handler }

// Enabled says whether debugging output is wanted.
func (l lowered) Enabled(ctx context.Context, _ slog.Level) bool {
	return l.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle writes the record as debugging output.
func (l lowered) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return l.Handler.Handle(ctx, r)
}

// WithAttrs keeps the level lowered.
func (l lowered) WithAttrs(a []slog.Attr) slog.Handler { return lowered{l.Handler.WithAttrs(a)} }

// WithGroup keeps the level lowered.
func (l lowered) WithGroup(name string) slog.Handler { return lowered{l.Handler.WithGroup(name)} }
