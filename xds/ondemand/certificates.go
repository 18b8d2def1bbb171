package ondemand

const (
	// ServerNameType is the delta xDS type of what an ingress gateway's agent is told of a host whose certificate is found on demand, by the name that a
	// client says (wildcard subscription). A resource is named ServerName(host); its body is a google.protobuf.StringValue: the name of the secret, or
	// "" where nothing is shown for the host, so that it is closed, also where a wider pattern has a secret.
	ServerNameType = "type.googleapis.com/sallyport.xds.v1.ServerName"
	// CertificatesMetadata is the key of the node metadata by which a router's agent says that it finds them.
	CertificatesMetadata = "SALLYPORT_CERTIFICATES_ON_DEMAND"
	// NoServerName is what Envoy asks for where a client says no name: no host has it.
	NoServerName = "."
)

const serverName = "sni/"

// ServerName is the name of a host's resource; "*" alone would be a wildcard to xDS.
func ServerName(host string) string { return serverName + host }

// ServerHost is the host of such a resource.
func ServerHost(name string) string { return name[min(len(serverName), len(name)):] }
