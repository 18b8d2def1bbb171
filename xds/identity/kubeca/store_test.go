package kubeca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

const namespace = "istio-system"

func open(t *testing.T, client *fake.Clientset) (*ca.CA, error) {
	t.Helper()
	return ca.OpenContext(t.Context(), ca.Options{Store: NewStore(client.CoreV1(), namespace)})
}

type authority struct {
	key         crypto.Signer
	certificate *x509.Certificate
}

func (a authority) pem() []byte { return pemfile.EncodeCertificates(a.certificate) }

func (a authority) keyPEM(t *testing.T) []byte {
	text, err := pemfile.EncodeKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newAuthority(t *testing.T, name string, parent *authority) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return authorityOf(t, name, key, parent)
}

func authorityOf(t *testing.T, name string, key crypto.Signer, parent *authority) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"cluster.local"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	issuer, signer := template, key
	if parent != nil {
		issuer, signer = parent.certificate, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{key, certificate}
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

// What others left in the cluster is understood: Istio's given CA, cert-manager's, and Istio's own.
func TestSecretsOfOthers(t *testing.T) {
	root := newAuthority(t, "root", nil)
	lower := newAuthority(t, "lower", &root)
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	istios := authorityOf(t, "istio's", large, nil)
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(large)})
	own := secret(OwnSecret, map[string][]byte{
		"ca-key.pem": pkcs1, "ca-cert.pem": istios.pem(), "root-cert.pem": {}, "cert-chain.pem": {}, "key.pem": {},
	})
	for _, c := range []struct {
		name    string
		secrets []runtime.Object
		root    authority
		err     string
	}{
		{"Istio's given CA wins", []runtime.Object{own, secret(GivenSecret, map[string][]byte{
			"ca-key.pem": lower.keyPEM(t), "ca-cert.pem": lower.pem(), "cert-chain.pem": append(lower.pem(), root.pem()...), "root-cert.pem": root.pem(),
		})}, root, ""},
		{"cert-manager's", []runtime.Object{secret(GivenSecret, map[string][]byte{
			"tls.key": lower.keyPEM(t), "tls.crt": lower.pem(), "ca.crt": root.pem(),
		})}, root, ""},
		{"Istio's own, with texts that it leaves empty", []runtime.Object{own}, istios, ""},
		{"a given CA without its key", []runtime.Object{own, secret(GivenSecret, map[string][]byte{
			"ca-cert.pem": lower.pem(), "root-cert.pem": root.pem(),
		})}, authority{}, "Secret istio-system/cacerts: ca-key.pem"},
		{"an empty given CA", []runtime.Object{own, secret(GivenSecret, nil)}, authority{}, "Secret istio-system/cacerts: ca-key.pem"},
		{"an intermediate of nobody", []runtime.Object{secret(GivenSecret, map[string][]byte{
			"ca-key.pem": lower.keyPEM(t), "ca-cert.pem": lower.pem(), "root-cert.pem": istios.pem(),
		})}, authority{}, "trusted root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset(c.secrets...)
			opened, err := open(t, client)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !opened.Bundle()[0].Equal(c.root.certificate) {
				t.Errorf("root %s", opened.Bundle()[0].Subject)
			}
			for _, action := range client.Actions() {
				if action.GetVerb() != "get" {
					t.Errorf("%s %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
		})
	}
}

// A replica that loses the race takes the winner's CA.
func TestLosesTheRace(t *testing.T) {
	client := fake.NewClientset()
	winner := newAuthority(t, "winner", nil)
	var once sync.Once
	client.PrependReactor("create", "secrets", func(kubetesting.Action) (bool, runtime.Object, error) {
		once.Do(func() {
			_ = client.Tracker().Add(secret(OwnSecret, map[string][]byte{"ca-key.pem": winner.keyPEM(t), "ca-cert.pem": winner.pem()}))
		})
		return false, nil, nil
	})
	opened, err := open(t, client)
	if err != nil || !opened.Bundle()[0].Equal(winner.certificate) {
		t.Errorf("opened %v, %v", opened, err)
	}
}

func TestAPIFails(t *testing.T) {
	for _, verb := range []string{"get", "create"} {
		client := fake.NewClientset()
		client.PrependReactor(verb, "secrets", func(kubetesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("etcd is away")
		})
		if _, err := open(t, client); err == nil || !strings.Contains(err.Error(), "etcd is away") || !strings.Contains(err.Error(), "Secret istio-system/") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// The store keeps what is not its own, and refuses to overwrite what it has not seen.
func TestSave(t *testing.T) {
	client := fake.NewClientset()
	if _, err := open(t, client); err != nil {
		t.Fatal(err)
	}
	store := NewStore(client.CoreV1(), namespace)
	made, err := client.CoreV1().Secrets(namespace).Get(t.Context(), OwnSecret, metav1.GetOptions{})
	if err != nil || made.Type != ownType || made.Labels[labelManagedBy] != managedBy {
		t.Fatalf("%+v, %v", made, err)
	}
	made.Data["theirs"], made.ResourceVersion = []byte("kept"), "7"
	if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), made, namespace); err != nil {
		t.Fatal(err)
	}
	f, err := store.Load(t.Context())
	if err != nil || f.Version != "7" {
		t.Fatalf("version %q, %v", f.Version, err)
	}
	if _, err := (ca.Rotation{Store: store}).Advance(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	after, err := client.CoreV1().Secrets(namespace).Get(t.Context(), OwnSecret, metav1.GetOptions{})
	if err != nil || string(after.Data["theirs"]) != "kept" || len(after.Data["next-key.pem"]) == 0 || bytes.Count(after.Data["root-cert.pem"], []byte("BEGIN")) != 2 {
		t.Errorf("after a step: %d texts, %v", len(after.Data), err)
	}
	f.Version = "6"
	if err := store.Save(t.Context(), f); !errors.Is(err, ca.ErrConflict) {
		t.Errorf("Save of an old version: %v", err)
	}
}

func TestGivenIsNeverChanged(t *testing.T) {
	root := newAuthority(t, "root", nil)
	client := fake.NewClientset(secret(GivenSecret, map[string][]byte{"ca-key.pem": root.keyPEM(t), "ca-cert.pem": root.pem(), "root-cert.pem": root.pem()}))
	store := NewStore(client.CoreV1(), namespace)
	var given *ca.GivenError
	if _, err := (ca.Rotation{Store: store}).Advance(t.Context(), true); !errors.As(err, &given) || !strings.Contains(err.Error(), "cacerts") {
		t.Errorf("Advance: %v", err)
	}
	f, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), f); !errors.As(err, &given) {
		t.Errorf("Save: %v", err)
	}
}
