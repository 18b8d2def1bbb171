package dir

import (
	"context"
	"log/slog"

	"github.com/sallyport/sallyport/serviceentry/admission"
)

// logFindings writes each finding as one line.
func logFindings(log *slog.Logger, findings []admission.Finding) {
	for _, f := range findings {
		level := slog.LevelWarn
		if f.Severity == admission.Error {
			level = slog.LevelError
		}
		log.LogAttrs(context.Background(), level, f.String())
	}
}
