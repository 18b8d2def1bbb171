package remote

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Requests a second to another cluster's API server, and how many at once after a pause.
const (
	requestsPerSecond = 20
	requestsAtOnce    = 40
)

// Access reads a kubeconfig that somebody wrote into a Secret. It holds what it needs: whoever may write the Secret must not make this process
// run a program, or read one of its files.
func Access(kubeconfig []byte) (*rest.Config, error) {
	raw, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("is no kubeconfig: %w", err)
	}
	if err := selfContained(raw); err != nil {
		return nil, err
	}
	c, err := clientcmd.NewNonInteractiveClientConfig(*raw, raw.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(c.Host); err != nil || u.Scheme != "https" {
		return nil, fmt.Errorf("clusters[].cluster.server: %q is not https://HOST: what opens the cluster would be sent where anybody can read it", c.Host)
	}
	if c.Insecure {
		return nil, errors.New("clusters[].cluster.insecure-skip-tls-verify: whom it is from has to be verified; write certificate-authority-data")
	}
	c.QPS, c.Burst, c.UserAgent = requestsPerSecond, requestsAtOnce, "sallyport"
	return c, nil
}

func selfContained(raw *api.Config) error {
	for name, u := range raw.AuthInfos {
		at := "users[" + name + "].user."
		switch {
		case u.Exec != nil:
			return errors.New(at + "exec: programs are not run; write a token, as sallyport remote-secret does")
		case u.AuthProvider != nil:
			return errors.New(at + "auth-provider: it is not asked; write a token")
		case u.TokenFile != "" || u.ClientCertificate != "" || u.ClientKey != "":
			return errors.New(at + "tokenFile, client-certificate, client-key: files are not read; write token, client-certificate-data and client-key-data")
		}
	}
	for name, c := range raw.Clusters {
		if c.CertificateAuthority != "" {
			return errors.New("clusters[" + name + "].cluster.certificate-authority: files are not read; write certificate-authority-data")
		}
	}
	return nil
}
