// Package fields says of every field of the API what becomes of it: it is applied, it is warned of, or it is refused.
//
// There is one table a kind, in a file of its own. Admission reports what a table says of an object's fields, in lint,
// in the webhook and in the object's status; docs/fields.md is written from the tables. Tests walk the API's own
// descriptors, so that a field which is in no table fails them, and xds/translate shows of each field that is called
// applied that it changes what proxies are given.
//
// To add a field: find its kind's file, add one line. A message is entered field by field, unless all of it shares one
// fate that is not Applied.
//
// In: a message of the API. Out: what is to be said of its fields. The package imports, of this module, only
// decode/strict, for the form of paths.
package fields
