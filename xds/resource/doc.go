// Package resource holds configuration as it is sent: sealed bytes with their hash, which all streams and classes share.
//
// In: a message and its name. Out: a Resource that never changes again.
package resource
