// Package status says what became of the Gateway API's objects, as the API wants it told.
//
// In: a snapshot and an object's key. Out: the API's status values. They have no generation and no time: whoever writes them knows what was
// written before. Addresses, and whether a Gateway's pods run, are not known here.
package status
