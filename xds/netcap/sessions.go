package netcap

// SessionsMetadata is the key of the node metadata by which a gateway's agent says how many sessions of UDP its Envoy may have at a time, which
// takes a file and memory for each.
const SessionsMetadata = "SALLYPORT_SESSIONS"
