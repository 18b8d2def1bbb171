package apiserver

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/sallyport/sallyport/e2e/tools"
)

type programs struct{ etcd, apiserver string }

func findPrograms() (p programs, err error) {
	if p.etcd, err = exec.LookPath("etcd"); err != nil {
		return p, fmt.Errorf("etcd is not on the PATH: run `make cluster-tools` as root, or install Debian's etcd-server (%w)", err)
	}
	if p.apiserver, err = tools.Cached("kubernetes", "kube-apiserver"); err != nil {
		return p, errors.Join(err, errors.New("it takes some minutes, once"))
	}
	return p, nil
}
