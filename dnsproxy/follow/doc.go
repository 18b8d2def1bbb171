// Package follow tells when a file's content has changed, however it was written: in place, by rename, or by the
// symbolic links that Kubernetes turns over.
//
// In: a path; out: calls with the new content. It imports nothing of this module.
package follow
