package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-iptables/iptables"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// Backend is one set of iptables programs. It is a [redirect.Kernel].
type Backend struct {
	mode   string // nf_tables or legacy
	suffix string // of the programs: "", "-nft" or "-legacy"
	wait   time.Duration
	netlinkLinks
}

var _ redirect.Kernel = (*Backend)(nil)

// Mode is nf_tables or legacy.
func (b *Backend) Mode() string { return b.mode }

// Backends lists the installed sets of iptables programs, the system's choice first, each kind once. wait bounds the time
// for which each call waits for the xtables lock; whole seconds count, at least one.
func Backends(ctx context.Context, wait time.Duration) ([]*Backend, error) {
	var found []*Backend
	for _, suffix := range []string{"", "-nft", "-legacy"} {
		out, err := run(ctx, "", "iptables"+suffix, "--version")
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		mode := "legacy"
		if strings.Contains(out, "nf_tables") {
			mode = "nf_tables"
		}
		known := false
		for _, b := range found {
			known = known || b.mode == mode
		}
		if !known {
			found = append(found, &Backend{mode: mode, suffix: suffix, wait: wait})
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no iptables found: install iptables (1.8 or later) where this runs")
	}
	return found, nil
}

// Choose picks the backend to write to: the one that holds our rules already, else the first that this kernel supports.
func Choose(ctx context.Context, backends []*Backend, log *slog.Logger) (*Backend, error) {
	for _, b := range backends {
		if redirect.HoldsOurs(ctx, b) {
			return b, nil
		}
	}
	var errs []error
	for _, b := range backends {
		err := b.works()
		if err == nil {
			return b, nil
		}
		log.Debug("iptables does not work here", "mode", b.mode, "error", err)
		errs = append(errs, fmt.Errorf("%s: %w", b.mode, err))
	}
	return nil, fmt.Errorf("no iptables works here (is NET_ADMIN granted?): %w", errors.Join(errs...))
}

// works says why this kernel does not take the backend's rules, if so. Rules are written by the restore programs, since
// a whole table has to change at once, which go-iptables does not offer; it asks the questions.
func (b *Backend) works() error {
	for _, variable := range lockFile() {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	ipt, err := iptables.New(iptables.Path("iptables"+b.suffix), iptables.Timeout(max(1, int(b.wait/time.Second))))
	if err != nil {
		return err
	}
	if major, minor, patch := ipt.GetIptablesVersion(); major < 1 || (major == 1 && minor < 8) {
		return fmt.Errorf("iptables is %d.%d.%d: 1.8 or later is needed", major, minor, patch)
	}
	_, err = ipt.ListChains("nat")
	return err
}

// Save implements [redirect.Kernel]. It lists tables that exist and creates none.
func (b *Backend) Save(ctx context.Context, f redirect.Family) (string, error) {
	return run(ctx, "", b.program(f, "-save"))
}

// Restore implements [redirect.Kernel].
func (b *Backend) Restore(ctx context.Context, f redirect.Family, text string) error {
	_, err := run(ctx, text, b.program(f, "-restore"), "--noflush", "--wait", b.seconds())
	return err
}

func (b *Backend) program(f redirect.Family, action string) string {
	if f == redirect.IPv6 {
		return "ip6tables" + b.suffix + action
	}
	return "iptables" + b.suffix + action
}

func (b *Backend) seconds() string { return strconv.Itoa(max(1, int(b.wait/time.Second))) }

// run runs a program to its end and returns what it printed. The error holds what it said on stderr.
func run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), lockFile()...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if said := strings.TrimSpace(stderr.String()); said != "" {
			return "", fmt.Errorf("%s: %w: %s", name, err, said)
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return stdout.String(), nil
}

// lockFile names another xtables lock where the usual one cannot be made, in a container with a read-only root. Nobody shares
// that file system's lock anyway; [Lock] keeps runs of this program apart.
func lockFile() []string {
	const usual = "/run/xtables.lock"
	if os.Getenv("XTABLES_LOCKFILE") != "" {
		return nil
	}
	f, err := os.OpenFile(usual, os.O_RDONLY|os.O_CREATE, 0o600)
	if err == nil {
		_ = f.Close()
		return nil
	}
	if errors.Is(err, syscall.EROFS) {
		return []string{"XTABLES_LOCKFILE=" + os.DevNull}
	}
	return nil
}
