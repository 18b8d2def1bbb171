package secrets

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

func given(t *testing.T, name, key string) *discoveryv3.Resource {
	t.Helper()
	body, err := anypb.New(&tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{PrivateKey: inline([]byte(key))}}})
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.Resource{Name: name, Version: "1", Resource: body}
}

// What the controller gives is served beside the workload's own, is replaced and taken back, and never stands for the
// workload's own.
func TestCredentialsThatAreGiven(t *testing.T) {
	m := newMesh(t)
	w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile()})
	held := func(name string) secret {
		now := w.board.read()
		all, err := now.secrets(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return all[name]
	}
	if refused := w.Give([]*discoveryv3.Resource{given(t, "kubernetes://shop/a", "one"), given(t, "kubernetes://shop/b", "two")}, nil); len(refused) > 0 {
		t.Fatal(refused)
	}
	first := held("kubernetes://shop/a")
	if first.body == nil || held("kubernetes://shop/b").body == nil || held(RootsName).body == nil {
		t.Fatal("not everything is served")
	}
	told := false
	defer w.board.follow(func() { told = true })()
	w.Give([]*discoveryv3.Resource{given(t, "kubernetes://shop/a", "other")}, []string{"kubernetes://shop/b"})
	if !told {
		t.Error("nobody is told of the change")
	}
	if again := held("kubernetes://shop/a"); again.version == first.version || held("kubernetes://shop/b").body != nil {
		t.Error("the change is not served")
	}
	own := held(RootsName)
	wrong := given(t, "kubernetes://shop/c", "key-of-c")
	wrong.Resource.TypeUrl = "other"
	for name, why := range w.Give([]*discoveryv3.Resource{given(t, RootsName, "evil"), given(t, CertificateName, "evil"), given(t, SystemRootsName, "evil"), wrong}, nil) {
		if strings.Contains(why.Error(), "key-of-c") {
			t.Errorf("%s: the key is in the reason: %v", name, why)
		}
	}
	if held(RootsName).version != own.version || held(CertificateName).body != nil || held("kubernetes://shop/c").body != nil {
		t.Error("what must not be given is served")
	}
}
