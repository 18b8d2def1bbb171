package dir

import (
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/feed"
)

// sayKept tells the reader of an error that nothing is lost meanwhile.
func sayKept(findings []admission.Finding, kept map[config.Key]bool) []admission.Finding {
	for i, f := range findings {
		if f.Severity == admission.Error && f.Key == (config.Key{}) && len(kept) > 0 {
			findings[i].Fix += "; until then the last good version of the file's objects is used"
		}
	}
	return feed.SayKept(findings, func(f admission.Finding) bool { return kept[f.Key] })
}
