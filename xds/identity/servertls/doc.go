// Package servertls is the server's side of the controller's secure port: its certificate, and what it asks of its
// clients.
//
// In: the mesh CA and the names under which the controller is reached. Out: a tls.Config that follows the CA's
// rotations by itself. It imports nothing of this module, and runs no goroutine.
package servertls
