package console

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "a folder that pictures of the pages are written to")

// tab is one of Chromium's.
type tab struct {
	*testing.T
	ctx context.Context
}

// browser starts Chromium; without it the test is skipped.
func browser(t *testing.T) tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium here: make tools installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.DisableGPU)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	return tab{t, ctx}
}

// do takes steps.
func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// given is what an action gives.
func given[T any](b tab, a chromedp.Action[T]) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, a)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// look is a size and a colour scheme.
type look struct {
	width int64
	dark  bool
}

func (b tab) look(l look) {
	b.Helper()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	b.do(chromedp.EmulateViewport(l.width, 900))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		b.Fatal(err)
	}
}

// TestShots writes pictures, with -shots DIR.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("no -shots")
	}
	server := httptest.NewServer(served(t, scene(t), nil))
	defer server.Close()
	b := browser(t)
	for _, l := range []look{{1280, false}, {400, false}, {1280, true}} {
		for name, path := range looked {
			b.look(l)
			b.do(chromedp.Navigate(server.URL + path))
			picture := given(b, chromedp.FullScreenshot(100))
			file := filepath.Join(*shots, fmt.Sprintf("%s-%d%v.png", name, l.width, l.dark))
			if err := os.WriteFile(file, picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// looked are the pages that are looked at.
var looked = map[string]string{
	"overview": "/", "log": "/log", "groups": "/log?group=domain&q=verdict:denied", "flows": "/flows", "host": "/host?name=api.partner.example",
	"workload": "/workload?name=shop/cart", "explain": "/explain?from=shop/cart&url=https://a.test/", "wrong": "/log?q=colour:red",
}
