// Package server is the audit server: the one process that has the store open.
//
// In: batches on the socket DATA/audit.sock (ingest), questions on the same socket (query) and from the web page
// (console); both also by further ports, if some are given. Out: answers. Run needs nothing but its Options, so that the
// command and tests run the same thing.
package server
