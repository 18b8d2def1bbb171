package admission

// These are for tests of what has no findings of its own.
var (
	Formats        = formats
	NormalPath     = normalPath
	CoversSegments = coversSegments
)
