package apiserver

import (
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/e2e/cluster/pki"
)

// files is what the API server reads and how an admin comes in.
type files struct {
	dir       string
	authority *pki.Authority
	admin     pki.Pair
}

func (f files) in(name string) string { return filepath.Join(f.dir, name) }

// writeFiles makes ca.crt, apiserver.{crt,key} and service-accounts.key in dir.
func writeFiles(dir string) (files, error) {
	authority, err := pki.New("test-apiserver")
	if err != nil {
		return files{}, err
	}
	serving, err := authority.Issue(pki.Holder{Name: "kube-apiserver", Hosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		return files{}, err
	}
	// Its key signs service accounts' tokens; the certificate is of no use.
	tokens, err := authority.Issue(pki.Holder{Name: "service-accounts"})
	if err != nil {
		return files{}, err
	}
	admin, err := authority.Issue(pki.Holder{Name: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		return files{}, err
	}
	f := files{dir: dir, authority: authority, admin: admin}
	return f, errors.Join(serving.Write(dir, "apiserver"), tokens.Write(dir, "service-accounts"),
		os.WriteFile(f.in("ca.crt"), authority.Certificate(), 0o644))
}

// access writes the admin's kubeconfig for the API server at url.
func (f files) access(dir, url string) (*Server, error) {
	path := filepath.Join(dir, "kubeconfig")
	if err := f.authority.WriteKubeconfig(path, url, f.admin); err != nil {
		return nil, err
	}
	return &Server{
		Kubeconfig: path,
		Config: &rest.Config{
			Host: url, QPS: -1,
			TLSClientConfig: rest.TLSClientConfig{CAData: f.authority.Certificate(), CertData: f.admin.Cert, KeyData: f.admin.Key},
		},
	}, nil
}
