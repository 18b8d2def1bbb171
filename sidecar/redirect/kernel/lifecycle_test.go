package kernel

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// foreignRules are somebody else's, in every table that init writes to, before and behind what it adds.
const foreignRules = `*raw
-A PREROUTING -p udp -m udp --dport 9999 -j NOTRACK
COMMIT
*mangle
-A POSTROUTING -p tcp -m comment --comment "not our -j ISTIO_INBOUND" -j MARK --set-mark 7
COMMIT
*filter
:THEIRS - [0:0]
-A THEIRS -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -j THEIRS
COMMIT
*nat
:THEIRS - [0:0]
-A THEIRS -p tcp -m tcp --dport 7777 -j RETURN
-A OUTPUT -j THEIRS
COMMIT
`

// TestLifecycle goes through the modes, twice each, and back: what the kernel prints must be the plan word for word (the second
// run writes nothing), and in the end everything as it was.
func TestLifecycle(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind)
			l.restore(foreignRules)
			before := l.saved()
			links := l.links()
			l.mustInit(false, "--clean")
			for _, args := range [][]string{
				{},
				{"-m", "TPROXY", "--block-quic"},
				{"-m", "TPROXY", "-b", "80,8000:8080", "-t", "0x100", "-r", "99"},
				{"-i", "10.1.2.3/8,0.0.0.0/0,2001:db8::/32,64:ff9b::/96,::/0", "-x", "192.0.2.1,2001:db8::1", "-q", "1:9", "-o", "22,5000:5010", "-c", "net1,tun+"},
				{"--redirect-dns=false", "-b", "80", "-e", "0", "-u", "1337,101", "-g", "1,2"},
				{"-i", "", "-b", ""},
				{"--ipv6", "off"},
			} {
				l.mustInit(true, args...)
				first := l.saved()
				l.mustInit(false, args...)
				if second := l.saved(); second != first {
					t.Errorf("%v: the second run changed something:\n%s", args, cmp.Diff(first, second))
				}
			}
			l.restore("*nat\n-A OUTPUT -p tcp -m tcp --dport 6666 -j ACCEPT\nCOMMIT\n")
			l.mustInit(true)
			// The mark and table of -t and -r are not the defaults, so they are named to be found.
			l.mustInit(true, "--clean", "-t", "0x100", "-r", "99")
			l.mustInit(false, "--clean")
			l.restore("*nat\n-D OUTPUT -p tcp -m tcp --dport 6666 -j ACCEPT\nCOMMIT\n")
			if after := l.saved(); after != before {
				t.Errorf("not as before:\n%s", cmp.Diff(before, after))
			}
			if after := l.links(); after != links {
				t.Errorf("addresses, rules or routes are not as before:\n%s", cmp.Diff(links, after))
			}
		})
	}
}

// links is what init may add outside iptables.
func (l *lab) links() string {
	var b strings.Builder
	for _, what := range []string{"addr show dev lo", "-4 rule", "-6 rule", "-4 route show table all", "-6 route show table all"} {
		b.WriteString(sh(l.t, "ip -n "+l.pod+" "+what))
	}
	return b.String()
}

// TestNothingLeaks: an application that connects all the time never gets past the proxy while rules are replaced, nor does a
// client to the application.
func TestNothingLeaks(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind)
			l.mustInit(true)
			l.serveAll(true)
			end := l.start(l.pod, role{Do: "hammer", UID: appID, GID: appID, Dials: []dial{{Network: "tcp", Address: outsideV4 + ":80"}}})
			endInbound := l.start(l.outside, role{Do: "hammer", Dials: []dial{{Network: "tcp", Address: podV4 + ":8080"}}})
			for range 3 {
				l.mustInit(true, "-m", "TPROXY", "--block-quic")
				l.mustInit(true, "-x", "192.0.2.0/24", "--redirect-dns=false")
				l.mustInit(true)
			}
			answers := end()
			if strings.Contains(answers, "outside") || strings.Contains(answers, "failed") || !strings.Contains(answers, "outbound") {
				t.Errorf("answers: %s", answers)
			}
			inbound := endInbound()
			if strings.Contains(inbound, "times app") || !strings.Contains(inbound, "times inbound") {
				t.Errorf("inbound answers: %s", inbound)
			}
			t.Logf("%s\n%s", answers, inbound)
		})
	}
}

// TestKilled ends init at some moment with everything it started. Each table is then as planned or untouched, the redirects
// come last, and another run completes it.
func TestKilled(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind)
			l.mustInit(true)
			whole := tableSet(l.saved())
			l.mustInit(true, "--clean")
			bare := tableSet(l.saved())
			written := 0
			for name, got := range whole {
				if got != bare[name] {
					written++
				}
			}
			moments := map[string]int{}
			for range 8 {
				ctx, cancel := context.WithCancel(context.Background())
				cmd := l.command(ctx, l.pod, role{Do: "init"}, "PATH="+l.path)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				killed := time.AfterFunc(time.Duration(rand.IntN(120))*time.Millisecond, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
				_ = cmd.Wait()
				killed.Stop()
				cancel()
				state := ""
				for name, got := range tableSet(l.saved()) {
					switch got {
					case whole[name]:
						state += name + " "
					case bare[name]:
					default:
						t.Errorf("table %s is half written:\n%s", name, got)
					}
				}
				if strings.Contains(state, "4nat") && !strings.Contains(state, "4raw") {
					t.Errorf("the redirects came before what they lean on: %s", state)
				}
				moments[state]++
				l.mustInit(len(strings.Fields(state)) != written)
				l.mustInit(true, "--clean")
			}
			t.Log(len(moments), "different states at the kill")
		})
	}
}

// tableSet cuts saved output into tables: "4nat", "6raw" and so on.
func tableSet(saved string) map[string]string {
	out := map[string]string{}
	family, seen := "4", map[string]bool{}
	var name string
	for line := range strings.Lines(saved) {
		if strings.HasPrefix(line, "*") {
			name = strings.TrimSpace(line[1:])
			if seen[name] {
				family = "6"
			}
			seen[name] = true
		}
		out[family+name] += line
	}
	return out
}

// TestXtablesLock: the legacy programs wait for the lock that another one holds, but not for ever.
func TestXtablesLock(t *testing.T) {
	l := newLab(t, "legacy")
	file := filepath.Join(t.TempDir(), "xtables.lock")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + l.path, "XTABLES_LOCKFILE=" + file}
	log, err := l.play(l.pod, role{Do: "init", Args: []string{"--wait", "1s"}}, env...)
	if err == nil || !strings.Contains(log, "xtables lock") {
		t.Errorf("got %v: %s", err, log)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if log, err := l.play(l.pod, role{Do: "init"}, env...); err != nil {
		t.Errorf("got %v: %s", err, log)
	}
}
