package clientlog

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestLowered(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelInfo:  "",
		slog.LevelDebug: "level=DEBUG msg=lost name.a=b error=gone\n",
	} {
		var b strings.Builder
		log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "err" || a.Key == "logger" || a.Key == "a" {
				return slog.Attr{}
			}
			return a
		}}))
		klog.FromContext(Context(t.Context(), log)).WithName("name").WithValues("a", "b").Error(errors.New("gone"), "lost")
		if got := b.String(); (got == "") != (want == "") || !strings.HasPrefix(got, strings.SplitAfter(want, "lost")[0]) {
			t.Errorf("at %v it writes %q", level, got)
		}
	}
}

// TestNoBodies: what client-go says in detail has tokens and keys in it.
func TestNoBodies(t *testing.T) {
	var b strings.Builder
	log := klog.FromContext(Context(t.Context(), slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.Level(-100)}))))
	log.V(8).Info("Request Body", "body", "secret")
	log.V(4).Info("a request")
	if got := b.String(); strings.Contains(got, "secret") || !strings.Contains(got, "a request") {
		t.Errorf("it writes %q", got)
	}
}
