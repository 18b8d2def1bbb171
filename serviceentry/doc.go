// Package serviceentry is the folder of what there is and of what happens to a request. The registry holds services, endpoints,
// rules, users' routes and scopes as an immutable snapshot (route has what users say about the way of requests, in neutral values);
// resolve says what follows from it, and is where that is changed; policy walks resolve with one request, for explain. Objects come
// from config; xds renders what resolve says.
package serviceentry
