// Package outside plays what is beyond the mesh: web servers with a certificate authority of their own, and the
// name server that is the authority for their names.
//
// In: where to listen (Sockets: a namespace, or loopback) and the names. Out: real servers that remember who came,
// and records that can be changed while they are asked. It knows nothing of Sallyport and imports nothing of this
// module.
package outside
