package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-iptables/iptables"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// Backend is one set of iptables programs, for one run. It is a [redirect.Kernel].
type Backend struct {
	programs
	wait   time.Duration
	looked map[redirect.Family]string // what Choose saw, until somebody asks for it
	netlinkLinks
}

var _ redirect.Kernel = (*Backend)(nil)

// programs is one kind of iptables as it is installed.
type programs struct {
	mode   string // nf_tables or legacy
	suffix string // of the programs: "", "-nft" or "-legacy"
}

// Mode is nf_tables or legacy.
func (p programs) Mode() string { return p.mode }

// Backends lists the installed sets of iptables programs, the system's choice first, each kind once. wait bounds the time
// for which each call waits for the xtables lock; whole seconds count, at least one.
func Backends(ctx context.Context, wait time.Duration) (found []*Backend, err error) {
	all, err := once(&installed, os.Getenv("PATH"), func() ([]programs, error) { return findPrograms(ctx) })
	for _, p := range all {
		found = append(found, &Backend{programs: p, wait: wait, looked: map[redirect.Family]string{}})
	}
	return found, err
}

func findPrograms(ctx context.Context) (found []programs, err error) {
	for _, suffix := range []string{"", "-nft", "-legacy"} {
		out, err := run(ctx, "", "iptables"+suffix, "--version")
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		mode := legacy
		if strings.Contains(out, "nf_tables") {
			mode = "nf_tables"
		}
		if !slices.ContainsFunc(found, func(p programs) bool { return p.mode == mode }) {
			found = append(found, programs{mode, suffix})
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no iptables found: install iptables (1.8 or later) where this runs")
	}
	return found, nil
}

// legacy is the mode of what writes to the kernel's x_tables.
const legacy = "legacy"

// A process that takes many pods in asks what is installed, and whether the kernel takes it, once.
var installed, working sync.Map // by PATH, and by PATH and programs

// once gives what get gave for a key; an error is not kept.
func once[T any](kept *sync.Map, key any, get func() (T, error)) (T, error) {
	if was, ok := kept.Load(key); ok {
		return was.(T), nil
	}
	got, err := get()
	if err == nil {
		kept.Store(key, got)
	}
	return got, err
}

// Choose picks the backend to write to: the one that holds our rules already, else the first that this kernel supports.
func Choose(ctx context.Context, backends []*Backend, log *slog.Logger) (*Backend, error) {
	for _, b := range backends {
		if b.holdsOurs(ctx) {
			return b, nil
		}
	}
	var errs []error
	for _, b := range backends {
		_, err := once(&working, [2]string{os.Getenv("PATH"), b.suffix}, func() (bool, error) { return true, b.works() })
		if err == nil {
			return b, nil
		}
		log.Debug("iptables does not work here", "mode", b.mode, "error", err)
		errs = append(errs, fmt.Errorf("%s: %w", b.mode, err))
	}
	return nil, fmt.Errorf("no iptables works here (is NET_ADMIN granted?): %w", errors.Join(errs...))
}

// holdsOurs tells whether there are rules of ours, and keeps what it saw for who writes.
func (b *Backend) holdsOurs(ctx context.Context) bool {
	for _, f := range redirect.Families {
		text, err := b.Save(ctx, f)
		if err != nil {
			continue
		}
		if b.looked[f] = text; redirect.AreOurs(text) {
			return true
		}
	}
	return false
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
	if text, ok := b.looked[f]; ok {
		delete(b.looked, f)
		return text, nil
	}
	if b.blank(f) {
		return "", nil
	}
	return run(ctx, "", b.program(f, "-save"))
}

// Restore implements [redirect.Kernel]. The programs of both families run at once: nf_tables has one transaction at a time for a network namespace, and a
// program whose view of it has aged makes its own anew; x_tables have a lock, for which --wait waits.
func (b *Backend) Restore(ctx context.Context, texts map[redirect.Family]string) error {
	var waits []func() (string, error)
	for _, f := range redirect.Families {
		if text, ok := texts[f]; ok {
			waits = append(waits, start(ctx, text, b.program(f, "-restore"), "--noflush", "--wait", b.seconds()))
		}
	}
	var errs []error
	for _, wait := range waits {
		_, err := wait()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p programs) program(f redirect.Family, action string) string {
	if f == redirect.IPv6 {
		return "ip6tables" + p.suffix + action
	}
	return "iptables" + p.suffix + action
}

func (b *Backend) seconds() string { return strconv.Itoa(max(1, int(b.wait/time.Second))) }

// run runs a program to its end and returns what it printed. The error holds what it said on stderr.
func run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	return start(ctx, stdin, name, args...)()
}

// start starts a program in the network namespace of the calling thread, and gives what waits for its end as run does.
func start(ctx context.Context, stdin, name string, args ...string) (wait func() (string, error)) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), lockFile()...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Start()
	return func() (string, error) {
		if err == nil {
			err = cmd.Wait()
		}
		if err == nil {
			return stdout.String(), nil
		}
		if said := strings.TrimSpace(stderr.String()); said != "" {
			return "", fmt.Errorf("%s: %w: %s", name, err, said)
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
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
