// Package dir is the source of configuration that watches a directory of YAML and JSON files.
//
// In: a directory, its sub-directories included; of the files in it those that end with .yaml, .yml or .json and do
// not begin with a dot. Out: batches of changes, first everything as one, and findings about what cannot be used.
// A batch holds what changed and nothing else; one changed file costs reading that file.
//
// Bad input never half-applies: an object that is refused keeps its last good version, and so do all objects of a
// file that cannot be parsed, or that is empty. An object leaves when its file does, or when its file is whole and no longer has it.
// The last good versions of what closes something outlast a restart (memory.go). If the directory itself disappears, everything stays as it is.
//
// Changes are seen by way of the kernel (fsnotify), and for what that misses by a slow scan of names, sizes and
// times. One goroutine does all of it. The package must not import what comes after it, the registry first of all.
package dir
