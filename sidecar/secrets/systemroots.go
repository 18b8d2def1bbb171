package secrets

import "os"

// SystemRootsName is the secret with the roots that the proxy's host trusts: what servers outside the mesh are
// verified by. Istio's name.
const SystemRootsName = "file-root:system"

// rootFiles are where distributions keep those roots; crypto/x509 looks at the same places.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7
	"/etc/ssl/cert.pem",                                 // Alpine
}

// systemRoots is the file with the host's roots: SSL_CERT_FILE if it is set, as everywhere; "" when there is none.
func systemRoots() string {
	if file := os.Getenv("SSL_CERT_FILE"); file != "" {
		return file
	}
	for _, file := range rootFiles {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}
