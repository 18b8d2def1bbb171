package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Channel is one of the Gateway API's: what there is, and what is tried beside it.
type Channel string

// The channels.
const (
	Standard     Channel = "standard"
	Experimental Channel = "experimental"
)

// GatewayAPI gives the files of the Gateway API's CRDs, of a channel, as the module has them.
func GatewayAPI(ctx context.Context, of Channel) ([]string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		return nil, fmt.Errorf("the Gateway API's module: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "config/crd", string(of), "gateway.networking.k8s.io_*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("the Gateway API's module has no CRDs")
	}
	return files, err
}
