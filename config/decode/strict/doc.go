// Package strict compares a decoded YAML or JSON tree with the API type it is meant for.
//
// A tree (maps, slices, strings, numbers, booleans) and a protobuf message's descriptor come in; what does not fit
// goes out, each with its path, its value and what to write instead: unknown fields, values of the wrong type,
// unknown enum values, and more than one choice of a oneof. The protobuf decoders stop at the first of these and
// know no path.
//
// It imports nothing of this module.
package strict
