// Package keys fetches the sets of keys (JWKS, RFC 7517) by which the tokens of issuers are verified, and keeps them up to date.
//
// In: which sets are wanted (Want), by whom, and what of the inside their hosts may be. Out: changes of objects of config.KindKeySet, as
// another source of configuration. What was fetched once stays while its issuer is away.
package keys
