package admission

import (
	"time"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// These are for tests of what has no findings of its own.
var (
	Formats        = formats
	NormalPath     = normalPath
	CoversSegments = coversSegments
)

// Covers says whether one rule matches all that another does.
func Covers(a, b *v1alpha1.Rule, now time.Time) bool {
	left := maxEffort
	return newMatcher(a).covers(newMatcher(b), &world{now: now}, &left)
}
