package pki

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestIssue(t *testing.T) {
	authority, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(Holder{Name: "admin", Groups: []string{"system:masters"}, Hosts: []string{"api.test", "192.0.2.1"}})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Certificate()) {
		t.Fatal("the authority's certificate is none")
	}
	for _, host := range []string{"api.test", "192.0.2.1"} {
		if _, err := loaded.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := loaded.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "other.test"}); err == nil {
		t.Error("the certificate is good for any name")
	}
	if s := loaded.Leaf.Subject; s.CommonName != "admin" || !slices.Equal(s.Organization, []string{"system:masters"}) {
		t.Errorf("subject: %v", s)
	}

	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := authority.WriteKubeconfig(path, "https://192.0.2.1:6443", pair); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil || config.Host != "https://192.0.2.1:6443" || string(config.CertData) != string(pair.Cert) {
		t.Errorf("kubeconfig: %+v, %v", config, err)
	}
}
