package admission

// Formats is for the fuzz target.
var Formats = formats
