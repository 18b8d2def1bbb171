package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// UseIPv6 decides --ipv6 for the network namespace of the calling thread. proc is /proc.
//
// With auto, IPv6 counts as there if any interface has an address of it, lo included, or an interface that comes later would get one.
// Istio asks whether the pod's own address is IPv6; a pod with an IPv4 address and a link-local IPv6 one would then have an
// uncaught way out.
func UseIPv6(proc fs.FS, choice redirect.IPv6Choice) (bool, error) {
	if choice == redirect.IPv6Off {
		return false, nil
	}
	addresses, err := fs.ReadFile(proc, "thread-self/net/if_inet6")
	if errors.Is(err, fs.ErrNotExist) {
		if choice == redirect.IPv6On {
			return false, errors.New("--ipv6=on, but this kernel has no IPv6: say --ipv6=auto")
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for IPv6: %w", err)
	}
	if choice == redirect.IPv6On || len(strings.TrimSpace(string(addresses))) > 0 {
		return true, nil
	}
	disabled, err := fs.ReadFile(proc, "sys/net/ipv6/conf/default/disable_ipv6")
	if err != nil {
		return true, nil // unknown, so better caught
	}
	return strings.TrimSpace(string(disabled)) != "1", nil
}
