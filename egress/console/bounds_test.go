package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPasteIsBounded: what takes much room is refused before it does.
func TestPasteIsBounded(t *testing.T) {
	h := guarded(t)
	var many, grows strings.Builder
	for n := range mostObjects + 1 {
		fmt.Fprintf(&many, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n%d}\n", n)
	}
	for range 100 {
		grows.WriteString("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n}\nx: &x " + strings.Repeat("y", 1_000) + "\nz: [" + strings.Repeat("*x,", 900) + "]\n")
	}
	for want, text := range map[string]string{"more than 500 objects": many.String(), "more than 2097152 bytes": grows.String()} {
		if status, said := tell(t, h, "auditor", "/simulate", url.Values{"yaml": {text}, "since": {"30d"}}); status != http.StatusBadRequest || !strings.Contains(said, want) {
			t.Errorf("%d, does not say %q: %.2000s", status, want, said[max(0, strings.Index(said, "<main")):])
		}
	}
}

// TestWaitingKeepsNobody: while many wait for the configuration, or for a mesh, the log's pages answer, and a record's does without it.
func TestWaitingKeepsNobody(t *testing.T) {
	asked, over := make(chan struct{}, 16), make(chan struct{})
	h := served(t, scene(t), func(o *Options) {
		configured(t, objects)(o)
		read := o.Config
		o.Config = func(ctx context.Context) (*Config, error) {
			asked <- struct{}{}
			select {
			case <-over:
				return read(ctx)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
	var waiting sync.WaitGroup
	for n := range 3 * atOnce {
		waiting.Go(func() {
			at := []string{"/policies", "/review", "/explain?from=shop/cart&url=https://a.test"}[n%3]
			if r := get(t, h, "localhost", at); r.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", at, r.StatusCode)
			}
		})
	}
	for range 3 * atOnce {
		<-asked
	}
	began := time.Now()
	if text := body(t, h, "/log"); !strings.Contains(text, "api.partner.example") {
		t.Error("the log is kept waiting")
	}
	if text := body(t, h, "/record?proxy="+url.QueryEscape(scene(t)[0].Proxy)+"&epoch=1&seq=1"); !strings.Contains(text, "cannot be read") {
		t.Error("the record waits for the configuration")
	}
	if took := time.Since(began); took > busyAnswerTime/2 {
		t.Errorf("they take %v", took)
	}
	close(over)
	waiting.Wait()
}
