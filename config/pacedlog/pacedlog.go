// Package pacedlog is for lines of a log that others cause, who may be anybody: texts are cut, and of many lines few are written, with the number of those that are not.
//
// In: a logger; out: another one. It imports nothing of ours.
package pacedlog

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	atOnce   = 20 // lines
	interval = time.Second
)

// New gives a logger that writes to another one: twenty lines at once, and then one a second, in each of which a text has so many bytes at most.
func New(to *slog.Logger, longest int) *slog.Logger {
	return slog.New(handler{to.Handler(), longest, &budget{limit: rate.NewLimiter(rate.Every(interval), atOnce)}})
}

// budget is what loggers have together that come of one.
type budget struct {
	limit *rate.Limiter

	mu     sync.Mutex
	unsaid int
}

// take says whether a line may be written, and how many were not since the one before.
func (b *budget) take() (unsaid int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.limit.Allow() {
		b.unsaid++
		return 0, false
	}
	unsaid, b.unsaid = b.unsaid, 0
	return unsaid, true
}

type handler struct {
	slog.Handler
	longest int
	budget  *budget
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	unsaid, ok := h.budget.take()
	if !ok {
		return nil
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.cut(a))
		return true
	})
	if unsaid > 0 {
		out.AddAttrs(slog.Int("unsaid", unsaid))
	}
	return h.Handler.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.longest, h.budget}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.longest, h.budget}
}

// cut shortens what is a text, or is written as one.
func (h handler) cut(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString, slog.KindAny:
		if text := fmt.Sprint(value.Any()); len(text) > h.longest {
			return slog.String(a.Key, strings.ToValidUTF8(text[:h.longest], "")+"…")
		}
	}
	return a
}
