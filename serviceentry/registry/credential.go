package registry

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

// Credential is what a Secret holds for connections to servers outside, as PEM: a client's certificate with its key, and
// whom to trust. It is immutable. It must not get into anything that is printed, so it has no text of its own.
type Credential struct {
	Certificate, Key []byte // a pair, or both empty
	Roots, CRL       []byte // roots may be empty; a CRL is with roots only
}

// String keeps keys out of texts.
func (c *Credential) String() string { return "[a credential]" }

// GoString does too.
func (c *Credential) GoString() string { return c.String() }

// held is what a Secret was read as.
type held struct {
	good    *Credential // nil where it is no credential
	problem string      // why; names the Secret's key, never a value
}

// CredentialRef names the Secret of a rule, in the rule's own namespace; or what Bundle makes.
type CredentialRef struct{ Namespace, Name, Bundle string }

// cacert ends the name of a Secret beside another that holds whom to trust, as in Istio.
const cacert = "-cacert"

// Credential gives what a Secret holds, together with that of its name and "-cacert": nil, and why, when there is nothing
// to use.
func (s *Snapshot) Credential(ref CredentialRef) (*Credential, string) {
	if ref.Bundle != "" {
		return s.bundle(ref.Bundle)
	}
	main, there := s.credentials[ref]
	beside, also := s.credentials[CredentialRef{Namespace: ref.Namespace, Name: ref.Name + cacert}]
	switch {
	case !there && !also:
		return nil, fmt.Sprintf("there is no Secret %s/%s that the control plane can read", ref.Namespace, ref.Name)
	case there && main.good == nil:
		return nil, fmt.Sprintf("Secret %s/%s: %s", ref.Namespace, ref.Name, main.problem)
	case also && beside.good == nil:
		return nil, fmt.Sprintf("Secret %s/%s%s: %s", ref.Namespace, ref.Name, cacert, beside.problem)
	}
	var out Credential
	if there {
		out = *main.good
	}
	if also && len(beside.good.Roots) > 0 {
		out.Roots, out.CRL = beside.good.Roots, beside.good.CRL
	}
	return &out, ""
}

// setSecret takes a Secret over. (One that CheckSecret refuses does not get here: its source keeps the last good version.)
func (b *batch) setSecret(c config.Change) {
	ref := CredentialRef{Namespace: c.Key.Namespace, Name: c.Key.Name}
	if !b.credsCopied {
		b.next.credentials, b.credsCopied = maps.Clone(b.next.credentials), true
	}
	next := b.next.credentials
	if next == nil {
		next = map[CredentialRef]held{}
	}
	if c.Object == nil {
		delete(next, ref)
	} else {
		h := held{}
		var err error
		if h.good, err = readCredential(c.Object.Spec.(*corev1.Secret)); err != nil {
			h.problem = err.Error()
		}
		next[ref] = h
	}
	b.next.credentials = next
	for key := range b.index.credentials[ref] {
		b.touchCovered(b.index.rules[key].Host)
	}
	b.changed.Credentials = true
	b.changed.Secrets = append(b.changed.Secrets, ref)
	if of, beside := strings.CutSuffix(ref.Name, cacert); beside {
		b.changed.Secrets = append(b.changed.Secrets, CredentialRef{Namespace: ref.Namespace, Name: of})
	}
}

// noteCredentials remembers which Secrets a rule names.
func (x *index) noteCredentials(r *DestinationRule, named bool) {
	all := []*TLSSettings{r.TLS}
	for _, t := range r.PortTLS {
		all = append(all, t)
	}
	for _, t := range all {
		if t == nil || t.CredentialName == "" {
			continue
		}
		for _, name := range [...]string{t.CredentialName, t.CredentialName + cacert} {
			ref := CredentialRef{Namespace: r.Key.Namespace, Name: name}
			if !named {
				if delete(x.credentials[ref], r.Key); len(x.credentials[ref]) == 0 {
					delete(x.credentials, ref)
				}
				continue
			}
			if x.credentials[ref] == nil {
				x.credentials[ref] = map[config.Key]bool{}
			}
			x.credentials[ref][r.Key] = true
		}
	}
}

// CheckSecret says what is wrong with a Secret that is meant for a credential, so that a broken one does not take the place
// of a good one: values that are none, or that do not belong together. Secrets for other things are fine.
func CheckSecret(s *corev1.Secret) error {
	_, err := readCredential(s)
	var incomplete incompleteError
	if errors.As(err, &incomplete) && s.Type != corev1.SecretTypeTLS {
		return nil
	}
	return err
}

// incompleteError is about values that are not there: the Secret may be something else than a credential.
type incompleteError string

func (e incompleteError) Error() string { return string(e) }

// readCredential reads the two layouts that Istio takes: kubernetes.io/tls with ca.crt and ca.crl, and cert, key, cacert,
// crl. What Envoy would refuse is refused here, where it can be said. Errors name keys of the Secret, never values.
func readCredential(s *corev1.Secret) (*Credential, error) {
	data := maps.Clone(s.Data)
	if data == nil {
		data = map[string][]byte{}
	}
	for k, v := range s.StringData { // of files: an API server has merged it
		data[k] = []byte(v)
	}
	first := func(names ...string) ([]byte, string) {
		for _, name := range names {
			if len(data[name]) > 0 {
				return data[name], name
			}
		}
		return nil, names[0]
	}
	var c Credential
	var certName, keyName, rootName, crlName string
	c.Certificate, certName = first("tls.crt", "cert")
	c.Key, keyName = first("tls.key", "key")
	c.Roots, rootName = first("ca.crt", "cacert")
	c.CRL, crlName = first("ca.crl", "crl")
	switch {
	case len(c.Certificate)+len(c.Key)+len(c.Roots) == 0:
		return nil, incompleteError("it holds neither tls.crt with tls.key nor ca.crt")
	case len(c.Key) == 0 && len(c.Certificate) > 0:
		return nil, incompleteError(fmt.Sprintf("it holds %s without %s", certName, keyName))
	case len(c.Certificate) == 0 && len(c.Key) > 0:
		return nil, incompleteError(fmt.Sprintf("it holds %s without %s", keyName, certName))
	case len(c.CRL) > 0 && len(c.Roots) == 0:
		return nil, incompleteError(fmt.Sprintf("it holds %s without %s", crlName, rootName))
	}
	if len(c.Key) > 0 {
		if err := checkPair(c.Certificate, c.Key); err != nil {
			return nil, fmt.Errorf("%s and %s %w", certName, keyName, err)
		}
	}
	if len(c.Roots) > 0 && !holdsCertificates(c.Roots) {
		return nil, fmt.Errorf("%s holds no certificates in PEM form, or others than that", rootName)
	}
	if len(c.CRL) > 0 && !holdsOnly(c.CRL, "X509 CRL", func(der []byte) error { _, err := x509.ParseRevocationList(der); return err }) {
		return nil, fmt.Errorf("%s holds no revocation list in PEM form, or others than that", crlName)
	}
	return &c, nil
}

// minRSA is the shortest RSA key, in bits, that Envoy takes.
const minRSA = 2048

func checkPair(certificate, key []byte) error {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return errors.New("are no certificate and key in PEM form that belong together")
	}
	switch k := pair.PrivateKey.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() < minRSA {
			return fmt.Errorf("have an RSA key of %d bits; at least %d are needed", k.N.BitLen(), minRSA)
		}
	case *ecdsa.PrivateKey:
		if k.Curve.Params().BitSize < 256 {
			return errors.New("have a curve other than P-256, P-384 and P-521")
		}
	default:
		return errors.New("have a key that is neither RSA nor ECDSA")
	}
	return nil
}

// holdsCertificates says whether a PEM text holds certificates, and nothing else.
func holdsCertificates(text []byte) bool {
	return holdsOnly(text, "CERTIFICATE", func(der []byte) error { _, err := x509.ParseCertificate(der); return err })
}

// holdsOnly says whether a PEM text holds blocks of one type, at least one, each of which can be read.
func holdsOnly(text []byte, kind string, read func(der []byte) error) bool {
	found := false
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != kind || read(block.Bytes) != nil {
			return false
		}
		found = true
	}
	return found
}
