// Package guard says which addresses a public name has no business with: a name that resolves to one of them would
// turn a proxy that may reach the inside into somebody's way in (DNS rebinding, metadata services).
//
// In: an address; out: whether it is refused. It imports only the standard library.
package guard
