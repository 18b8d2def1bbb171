package feed

import (
	"context"
	"log/slog"

	"github.com/sallyport/sallyport/config/admission"
)

// KeptFix is what is added to what a finding tells its reader to do, when the object's last good version stays.
const KeptFix = "; until then its last good version is used"

// MarkKept adds KeptFix to the errors about the objects that are kept, in place.
func MarkKept(findings []admission.Finding, kept func(admission.Finding) bool) []admission.Finding {
	for i, f := range findings {
		if f.Severity == admission.Error && kept(f) {
			findings[i].Fix += KeptFix
		}
	}
	return findings
}

// Log writes each finding as one line.
func Log(log *slog.Logger, findings []admission.Finding) {
	for _, f := range findings {
		level := slog.LevelWarn
		if f.Severity == admission.Error {
			level = slog.LevelError
		}
		log.LogAttrs(context.Background(), level, f.String())
	}
}
