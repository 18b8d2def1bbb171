// Package review is what every admission webhook does: it reads an admission.k8s.io/v1 review within limits of size and
// time, asks a function for the answer, sends it and counts it.
//
// In: an HTTP call; out: the answer of Config.Answer. It knows nothing of what is reviewed and imports nothing of this
// project, so that the webhook of injection, which is the data plane's by its subject, can use it too.
package review
