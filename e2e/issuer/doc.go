// Package issuer is an OpenID Connect provider for tests: the library zitadel/oidc, which is certified, over TLS, with people who log in at once.
//
// In: who logs in, and what goes wrong. Out: an issuer that the console's login is tried against. It has its own go.mod, so that nothing else gets the library.
package issuer
