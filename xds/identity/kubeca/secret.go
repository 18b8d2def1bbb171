package kubeca

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/xds/identity/ca"
)

// certManagerRoot is the root's key in a Secret that cert-manager writes, beside those of Kubernetes' TLS Secrets.
const certManagerRoot = "ca.crt"

// readGiven reads `cacerts` in either layout. A Secret of cert-manager has the chain behind the CA's certificate.
func readGiven(origin string, secret *corev1.Secret) ca.Files {
	f := read(origin, secret)
	f.Given, f.Version = true, "given"
	if len(f.Certificate) == 0 && len(f.Key) == 0 {
		f.Key, f.Certificate = secret.Data[corev1.TLSPrivateKeyKey], secret.Data[corev1.TLSCertKey]
		f.Roots = slices.Concat(secret.Data[certManagerRoot], secret.Data[ca.RootsFile])
	}
	return f
}

func read(origin string, secret *corev1.Secret) ca.Files {
	f := ca.Files{Origin: origin}
	for name, text := range texts(&f) {
		*text = secret.Data[name]
	}
	return f
}

// fill puts the CA into a Secret. An empty text is no key at all.
func fill(secret *corev1.Secret, f ca.Files) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for name, text := range texts(&f) {
		if len(*text) > 0 {
			secret.Data[name] = *text
		} else {
			delete(secret.Data, name)
		}
	}
}

func texts(f *ca.Files) map[string]*[]byte {
	return map[string]*[]byte{
		ca.KeyFile: &f.Key, ca.CertificateFile: &f.Certificate, ca.ChainFile: &f.Chain, ca.RootsFile: &f.Roots,
		ca.NextKeyFile: &f.NextKey, ca.NextCertificateFile: &f.NextCertificate, ca.RotationFile: &f.Rotation,
	}
}
