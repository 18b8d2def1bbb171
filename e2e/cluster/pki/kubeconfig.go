package pki

import (
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a file that lets the holder of the pair in at the API server at url.
func (a *Authority) WriteKubeconfig(path, url string, holder Pair) error {
	const name = "sallyport-e2e"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: url, CertificateAuthorityData: a.Certificate()}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: holder.Cert, ClientKeyData: holder.Key}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}
