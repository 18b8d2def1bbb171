// Package hosts reads the file of names that the resolver answers by itself when no control plane pushes them.
//
// In: the file's content, as YAML or in the form of /etc/hosts; out: the lines of the name table. It imports
// dnsproxy/name and dnsproxy/follow.
package hosts
