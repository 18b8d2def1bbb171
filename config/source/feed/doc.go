// Package feed holds what every source of configuration does in the same way: how long changes gather before they
// are handed on (HoldOff), which findings hold now and which are new (Notes), and the words that tell a reader that a
// refused object's last good version stays (MarkKept).
//
// It imports config/admission, and no source.
package feed
