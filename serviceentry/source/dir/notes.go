package dir

import (
	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/admission"
	"github.com/sallyport/sallyport/serviceentry/source/feed"
)

// sayKept tells the reader of an error that nothing is lost meanwhile.
func sayKept(findings []admission.Finding, kept map[serviceentry.Key]bool) []admission.Finding {
	for i, f := range findings {
		if f.Severity == admission.Error && f.Key == (serviceentry.Key{}) && len(kept) > 0 {
			findings[i].Fix += "; until then the last good version of the file's objects is used"
		}
	}
	return feed.SayKept(findings, func(f admission.Finding) bool { return kept[f.Key] })
}
