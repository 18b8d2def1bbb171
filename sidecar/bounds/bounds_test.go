package bounds

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

const mib = 1 << 20

func TestMemory(t *testing.T) {
	const machine = "MemTotal:       8388608 kB\nMemFree: 1 kB\n" // 8 GiB
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"version 2, the container's group as the top": {
			map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "134217728\n"}, 128 * mib,
		},
		"version 2, more than half of the machine": {
			map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "6442450944\n"}, 6144 * mib,
		},
		"version 2, no limit": {
			map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 4096 * mib,
		},
		"version 2, the group around has the limit": {
			map[string]string{
				"proc/self/cgroup":                      "0::/pods/a/b\n",
				"sys/fs/cgroup/pods/a/b/memory.max":     "max\n",
				"sys/fs/cgroup/pods/a/memory.max":       "1073741824\n",
				"sys/fs/cgroup/pods/memory.max":         "2147483648\n",
				"sys/fs/cgroup/another/pods/memory.max": "1\n",
			}, 1024 * mib,
		},
		"version 1": {
			map[string]string{"proc/self/cgroup": "4:cpu,memory:/x\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 256 * mib,
		},
		"version 1, a group of the host's": {
			map[string]string{"proc/self/cgroup": "4:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "268435456\n"}, 256 * mib,
		},
		"version 1, no limit": {
			map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 4096 * mib,
		},
		"no control groups": {map[string]string{}, 4096 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{"proc/meminfo": {Data: []byte(machine)}}
			for file, text := range c.files {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := Memory(root)
			if err != nil || got != c.want {
				t.Errorf("%d bytes, %v; want %d", got, err, c.want)
			}
		})
	}
}

func TestMemoryRefusesNonsense(t *testing.T) {
	root := fstest.MapFS{
		"proc/meminfo": {Data: []byte("MemTotal: 8 kB\n")}, "sys/fs/cgroup/memory.max": {Data: []byte("much\n")},
	}
	if _, err := Memory(root); err == nil || !strings.Contains(err.Error(), `"much"`) {
		t.Errorf("want an error with the word that is no number, got %v", err)
	}
	if _, err := Memory(fstest.MapFS{}); err == nil {
		t.Error("a machine without memory is taken")
	}
}

// TestFilesAreInherited: what a child may open is the most that the machine allows, not what this process began with.
func TestFilesAreInherited(t *testing.T) {
	most, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur != most || limit.Max != most {
		t.Errorf("%d files, the limit is %+v, %v", most, limit, err)
	}
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		t.Skip("no shell:", err)
	}
	if got := strings.TrimSpace(string(out)); got != strconv.FormatUint(most, 10) {
		t.Errorf("a child may open %s files, want %d", got, most)
	}
}

// TestChildBeganLower runs the test above in a process that begins with few files.
func TestChildBeganLower(t *testing.T) {
	const mark = "BOUNDS_TEST_CHILD"
	if os.Getenv(mark) != "" {
		t.Skip("this is the child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/bin/sh", "-c", `ulimit -Sn 256 && exec "$0" -test.run '^TestFilesAreInherited$'`, self)
	child.Env = append(os.Environ(), mark+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestConnections(t *testing.T) {
	for files, want := range map[uint64]uint32{20000: 9872, 1 << 20: 524160, 100: 128, 1 << 63: 1 << 30} {
		if got := Connections(files, 0); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
	if got := Connections(20000, 5000); got != 7372 {
		t.Errorf("%d connections beside 5,000 sessions", got)
	}
}

func TestSessions(t *testing.T) {
	for _, c := range []struct {
		files, memory uint64
		want          uint32
	}{{1 << 20, 8 << 30, 65536}, {20000, 8 << 30, 5000}, {1 << 20, 128 * mib, 4096}} {
		if got := Sessions(c.files, c.memory); got != c.want {
			t.Errorf("%d files and %d bytes: %d sessions, want %d", c.files, c.memory, got, c.want)
		}
	}
}
