package check

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

// bundleName and bundleKey are where the trust bundle is in each namespace.
const (
	bundleName = "istio-ca-root-cert"
	bundleKey  = "root-cert.pem"
)

// soon is how long before its end a CA's certificate is spoken of.
const soon = 30 * 24 * time.Hour

// bundles judges the copies of the trust bundle that pods mount.
func (s *survey) bundles() {
	want := s.Bundles[s.System]
	if want == "" {
		s.add(admission.Error, key("ConfigMap", s.System, bundleName), "", "", "it is missing: the control plane's trust bundle was never written, and pods with a proxy do not start",
			"see the log of the controller")
		return
	}
	for _, ns := range slices.Sorted(maps.Keys(s.meshed)) {
		switch got := s.Bundles[ns]; {
		case !s.meshed[ns] || s.Namespace != "" && ns != s.Namespace:
		case got == "":
			s.add(admission.Error, key("ConfigMap", ns, bundleName), "", "", "it is missing: pods with a proxy do not start in this namespace", "the leading controller writes it within a minute; if it does not, see its log")
		case strings.TrimSpace(got) != strings.TrimSpace(want):
			s.add(admission.Error, key("ConfigMap", ns, bundleName), "data["+bundleKey+"]", fmt.Sprintf("%d bytes", len(got)),
				"it is not the control plane's trust bundle: new proxies of this namespace do not trust the controller", "the leading controller mends it within a minute; if it does not, see its log")
		}
	}
}

// roots judges the mesh's roots.
func (s *survey) roots() {
	of := key("ConfigMap", s.System, bundleName)
	certificates := s.certificates(of, "data["+bundleKey+"]", s.Bundles[s.System])
	valid := slices.ContainsFunc(certificates, func(c *x509.Certificate) bool { return s.now.Before(c.NotAfter) })
	for _, c := range certificates {
		switch {
		case !s.now.Before(c.NotAfter) && valid: // a rotation's old one
			s.add(admission.Warning, of, "data["+bundleKey+"]", c.Subject.String(), "this root has expired on "+day(c.NotAfter)+"; another one is valid", `end the rotation: sallyport ca rotate`)
		default:
			s.expiry(of, "data["+bundleKey+"]", c, "rotate the root: sallyport ca rotate")
		}
	}
}

// signer judges the certificates that the CA signs with.
func (s *survey) signer() {
	for _, at := range slices.Sorted(maps.Keys(s.Signer)) {
		secret, field, _ := strings.Cut(at, ": ")
		namespace, name, _ := strings.Cut(strings.TrimPrefix(secret, "Secret "), "/")
		of := key("Secret", namespace, name)
		for _, c := range s.certificates(of, field, s.Signer[at]) {
			fix := "rotate the root: sallyport ca rotate"
			if name == "cacerts" {
				fix = "put a new certificate into the Secret; whoever made this one can"
			}
			s.expiry(of, field, c, fix)
		}
	}
}

func (s *survey) expiry(of config.Key, field string, c *x509.Certificate, fix string) {
	left := c.NotAfter.Sub(s.now)
	switch {
	case left <= 0:
		s.add(admission.Error, of, field, c.Subject.String(), "it has expired on "+day(c.NotAfter)+": no proxy gets a certificate, and connections between proxies fail", fix)
	case left < soon:
		s.add(admission.Warning, of, field, c.Subject.String(), fmt.Sprintf("it expires on %s, in %d days", day(c.NotAfter), int(left.Hours()/24)), fix)
	}
}

// certificates reads PEM; what cannot be read is a finding.
func (s *survey) certificates(of config.Key, field, text string) []*x509.Certificate {
	var out []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			s.add(admission.Error, of, field, "", "it holds a certificate that cannot be read: "+oneLine(err.Error()), "write a PEM file of X.509 certificates")
			continue
		}
		out = append(out, c)
	}
	if len(out) == 0 && strings.TrimSpace(text) != "" {
		s.add(admission.Error, of, field, "", "it holds no certificate", "write a PEM file of X.509 certificates")
	}
	return out
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
