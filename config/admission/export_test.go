package admission

// These are for the fuzz targets.
var (
	Formats    = formats
	NormalPath = normalPath
)
