// Command sallyport-cni is the CNI plugin by which a container runtime tells a node's agent of each pod (sidecar/node/cni). It is small, since it is started for each.
package main

import (
	"fmt"
	"os"

	"github.com/sallyport/sallyport/sidecar/node/cni"
)

// version is set at build time.
var version = "dev"

// failed is the exit code of all programs of Sallyport's for what could not be done.
const failed = 3

func main() {
	if err := cni.Run("sallyport-cni " + version); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(failed)
	}
}
