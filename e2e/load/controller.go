package load

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/e2e/world"
)

// patience is how long anything may take before the run is given up; of the first answers, the next of them.
const patience = 15 * time.Minute

// controller is the process that is measured.
type controller struct {
	process *world.Process
	xds     string
	admin   string
	began   time.Time
	ready   time.Duration // from its start until /readyz agreed
}

// startController runs `sallyport controller` on the mesh, with a data directory of its own, and waits until it is
// ready.
func startController(ctx context.Context, run *world.Run, program string, m mesh) (*controller, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	c := &controller{xds: ports[0], admin: ports[2], began: time.Now()}
	c.process, err = run.Start("controller", program, "controller",
		"--config-dir", m.objects, "--mesh-config", m.settings, "--data", filepath.Join(run.Dir, "data"),
		"--xds-addr", c.xds, "--secure-xds-addr", ports[1], "--admin-addr", c.admin, "--audit=false")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = world.Poll(ctx, 5*time.Millisecond, func() error {
		if err := c.process.Running(); err != nil {
			cancel()
			return err
		}
		return answersOK(ctx, "http://"+c.admin+"/readyz")
	})
	c.ready = time.Since(c.began)
	return c, err
}

// admin asks the controller's admin port. It keeps no connections: the controller may be gone the next time.
var admin = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func answersOK(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := admin.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

func (c *controller) stop() error { return c.process.Stop(10 * time.Second) }

// freePorts finds addresses on loopback that nobody listens at.
func freePorts(n int) ([]string, error) {
	var addrs []string
	for range n {
		addr, err := freeport.Addr()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// tick is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpu gives the processor time that the controller has used so far, in user and system mode (utime and stime,
// fields 14 and 15 of proc(5) stat).
func (c *controller) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.process.PID()))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // what is before may hold spaces; it goes on with field 3
	fields := strings.Fields(rest)
	var ticks int64
	for _, i := range []int{14 - 3, 15 - 3} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", c.process.PID(), err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// peak gives the most memory, in bytes, that was resident so far (VmHWM of proc(5) status).
func (c *controller) peak() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process.PID()))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("/proc/%d/status has no VmHWM", c.process.PID())
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}
