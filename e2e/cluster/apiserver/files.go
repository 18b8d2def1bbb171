package apiserver

import (
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/sallyport/sallyport/e2e/cluster/pki"
)

// files is what the API server reads and how an admin comes in.
type files struct {
	dir   string
	ca    []byte
	admin pki.Pair
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
	f := files{dir: dir, ca: authority.Certificate(), admin: admin}
	return f, errors.Join(serving.Write(dir, "apiserver"), tokens.Write(dir, "service-accounts"),
		os.WriteFile(f.in("ca.crt"), f.ca, 0o644))
}

// access writes the admin's kubeconfig for the API server at url.
func (f files) access(dir, url string) (*Server, error) {
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: url, CertificateAuthorityData: f.ca}
	config.AuthInfos["admin"] = &api.AuthInfo{ClientCertificateData: f.admin.Cert, ClientKeyData: f.admin.Key}
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "admin"}
	config.CurrentContext = "test"
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return nil, err
	}
	return &Server{
		Kubeconfig: path,
		Config: &rest.Config{
			Host: url, QPS: -1,
			TLSClientConfig: rest.TLSClientConfig{CAData: f.ca, CertData: f.admin.Cert, KeyData: f.admin.Key},
		},
	}, nil
}
