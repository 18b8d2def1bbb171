package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestProxiesThatNeverReported: of two replicas whose sidecars are connected one has traffic, which its proxy records, and the other one has none: that one is found, and is no
// more when something of it is in the log.
func TestProxiesThatNeverReported(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	pods := map[string]*story.Pod{}
	for i, name := range []string{"web-x2x4z", "web-mkmkm"} {
		pod, err := s.AddSidecar(ctx, name, "shop", "web", netip.AddrFrom4([4]byte{10, 77, 0, byte(91 + i)}))
		if err != nil {
			t.Fatal(err)
		}
		pods[name] = pod
	}
	to := netip.AddrPortFrom(world.OutsideAddrs[0], 80)
	calls := func(pod string, times int) {
		t.Helper()
		for i := range times {
			if _, _, err := pageOf(ctx, pods[pod].Host().HTTPClient(), to, fmt.Sprintf("unheard-%d.test", i)); err != nil {
				t.Fatal(err) // whatever is answered is recorded
			}
		}
	}
	found := func() (pods []string, err error) {
		out, err := s.Call(ctx, "detect", "--data", s.DataDir(), "--only", "unheard-proxies", "--set", "unheard-proxies.connected=0s", "--set", "unheard-proxies.records=5", "-o", "json")
		if err != nil {
			return nil, err
		}
		var report struct {
			Findings []struct {
				Namespace, Workload, Severity string
				Count                         int
				Evidence                      struct{ Pod string }
			}
			Skipped []struct{ Why string }
		}
		if err := json.Unmarshal(out, &report); err != nil {
			return nil, fmt.Errorf("%s: %w", out, err)
		}
		if len(report.Skipped) > 0 {
			return nil, fmt.Errorf("it is skipped: %s", report.Skipped[0].Why)
		}
		for _, f := range report.Findings {
			pods = append(pods, fmt.Sprint(f.Namespace, "/", f.Workload, " ", f.Evidence.Pod, " ", f.Severity, " ", f.Count))
		}
		return pods, nil
	}
	wants := func(what string, want ...string) {
		t.Helper()
		if err := world.Within(ctx, time.Minute, func() error {
			got, err := found()
			if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
				err = fmt.Errorf("found are %q, want %q", got, want)
			}
			return err
		}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	calls("web-x2x4z", 8)
	wants("one of two reports", "shop/web web-mkmkm medium 1")
	calls("web-mkmkm", 1)
	wants("both do")
}
