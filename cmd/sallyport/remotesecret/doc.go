// Package remotesecret makes the Secret by which a control plane reads another cluster, and the account there that it reads as.
//
// In: access to the other cluster, and what its Secret shall be called. Out: the Secret, to be applied where the control plane is; and, unless
// told otherwise, in the other cluster a ServiceAccount that may list and watch what package config/source/kube/remote reads, and nothing else.
package remotesecret
