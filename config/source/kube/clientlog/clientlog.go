// Package clientlog hands client-go a log to write to, by way of a context.
package clientlog

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Context makes client-go write to that log what it does under the context, all of it as debugging output: what a user
// needs to know is said once, in our words, and not as an error for each kind and try.
func Context(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(lowered{log.Handler()}))
}

type lowered struct{ slog.Handler }

// Enabled says whether debugging output is wanted. The bodies of requests and answers (klog's level 8, -8 here) never
// are: there are tokens and keys in them.
func (l lowered) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && l.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle writes the record as debugging output. Of errors client-go does not ask whether they are wanted.
func (l lowered) Handle(ctx context.Context, r slog.Record) error {
	if !l.Enabled(ctx, r.Level) {
		return nil
	}
	r.Level = slog.LevelDebug
	return l.Handler.Handle(ctx, r)
}

// WithAttrs keeps the level lowered.
func (l lowered) WithAttrs(a []slog.Attr) slog.Handler { return lowered{l.Handler.WithAttrs(a)} }

// WithGroup keeps the level lowered.
func (l lowered) WithGroup(name string) slog.Handler { return lowered{l.Handler.WithGroup(name)} }
