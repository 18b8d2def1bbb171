// Package state keeps the configuration that Envoy last accepted, on disk, so that a proxy restarting alone comes
// up with it.
//
// In: resources that were acknowledged, and names that were removed; out: their versions (in memory) and their
// bodies (read back from disk when asked, so that ten thousand resources cost an index and not their bytes).
//
// There is one append-only file for each resource type. A change is appended after at most Delay and synced; a file
// that holds more dead bytes than live ones is rewritten beside itself and renamed. Writing so costs what changed.
// Each record carries a checksum: a torn tail is cut off, and what came before it stands.
//
// It must not know about streams, nonces or Envoy.
package state
