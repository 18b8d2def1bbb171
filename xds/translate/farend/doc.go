// Package farend renders what is at the far end of a host's port, wherever it is connected to from: the cluster with its endpoints, TLS and traffic
// settings, what it needs of Secrets, and, where an object asks for what cannot be kept, the rows that say so.
package farend
