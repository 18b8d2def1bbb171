// Package login says who reads the console in a cluster, and of which namespaces.
//
// In: a token that the API server knows, or a person that an OpenID Connect issuer vouches for. Out: a Reader, by the API server's own word: TokenReview
// says who it is, SubjectAccessReview of the verb "get" on "auditrecords" of "egress.sallyport.io" says of what. Nothing is allowed here that the cluster's
// roles do not say, and what cannot be asked is not allowed. Who is logged in is kept in memory alone
// (docs/adr/0062-who-reads-the-log.md).
package login
