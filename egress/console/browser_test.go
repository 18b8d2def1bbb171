package console

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sallyport/sallyport/e2e/tools"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
)

var shots = flag.String("shots", "", "a folder that pictures of the pages are written to")

// tab is one of Chromium's.
type tab struct {
	*testing.T
	ctx context.Context
}

// browser starts Chromium; without it the test is skipped.
func browser(t *testing.T, flags ...chromedp.ExecAllocatorOption) tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium here: make tools installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.DisableGPU)
	options = append(options, flags...)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(ctx, 10*time.Minute)
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
	server := httptest.NewServer(served(t, scene(t), configured(t, objects)))
	defer server.Close()
	b := browser(t)
	for _, l := range []look{{1280, false}, {400, false}, {1280, true}} {
		for name, path := range pictured {
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

// pictured are the pages that are looked at.
var pictured = map[string]string{
	"policies": "/policies?host=api.partner.example", "review": "/review", "simulate": "/simulate", "findings": "/findings",
	"why":      "/explain?from=legacy/report&url=tls://x1.tracker.example.net:443",
	"overview": "/", "log": "/log?q=since:3h", "groups": "/log?group=domain&q=verdict:denied", "flows": "/flows", "host": "/host?name=api.partner.example",
	"workload": "/workload?name=shop/cart", "explain": "/explain?from=shop/cart&url=https://a.test/", "wrong": "/log?q=colour:red",
}

// judge is axe-core.
func judge(t *testing.T) string {
	t.Helper()
	at, err := tools.Cached("axe", "axe.min.js")
	if err != nil {
		t.Skip(err)
	}
	axe, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(axe)
}

// usable says what keeps people from using the page that is shown.
func (b tab) usable(axe, name string) {
	b.Helper()
	given(b, chromedp.Evaluate[any](axe+";0"))
	found := given(b, chromedp.Evaluate[[]string](`axe.run(document, {resultTypes: ["violations"]}).then((r) =>
		r.violations.flatMap((v) => v.nodes.slice(0, 3).map((n) => v.id + ": " + v.help + ": " + n.html.slice(0, 200))))`, chromedp.EvalAwaitPromise))
	for _, f := range found {
		b.Errorf("%s: %s", name, f)
	}
	if wide := given(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`)); wide > 0 {
		b.Errorf("%s: it is %d pixels too wide", name, wide)
	}
}

// TestInBrowser looks at each page in Chromium, wide and narrow, light and dark, goes over it by the keyboard, and reads it without scripts: nothing keeps people from
// using it as far as axe-core can tell, nothing is wider than the window, and nothing breaks.
func TestInBrowser(t *testing.T) {
	b := browser(t)
	axe := judge(t)
	server := httptest.NewServer(served(t, scene(t), configured(t, objects)))
	defer server.Close()
	says := map[string]string{}
	for _, l := range []look{{1280, false}, {400, true}} {
		b.look(l)
		for name, path := range pictured {
			b.do(chromedp.Navigate(server.URL + path))
			b.usable(axe, fmt.Sprintf("%s at %d", name, l.width))
			if n := given(b, chromedp.Evaluate[int](`document.querySelectorAll("img:not([src^='/static/'])").length`)); n != 0 {
				t.Errorf("%s: markup of the log's came through", name)
			}
			if !l.dark {
				says[name] = given(b, chromedp.Evaluate[string](`document.querySelector("main").innerText`))
				b.walk(name)
			}
		}
		b.simulate(server.URL)
		b.usable(axe, fmt.Sprintf("what is simulated at %d", l.width))
	}
	b.look(look{1280, false})
	b.scripts(false)
	for name, path := range pictured {
		b.do(chromedp.Navigate(server.URL + path))
		if text := given(b, chromedp.Evaluate[string](`document.querySelector("main").innerText`)); text != says[name] {
			t.Errorf("%s says without scripts\n%.600s\nand with them\n%.600s", name, text, says[name])
		}
	}
}

// simulate asks what a policy would deny, by the form.
func (b tab) simulate(server string) {
	b.Helper()
	b.do(chromedp.Navigate(server+"/simulate"), chromedp.SetValue("#yaml", onlyPay), chromedp.SetValue("[name=since]", "30d"), chromedp.Click("main form button"), chromedp.WaitReady("main [role=status], #error"))
	if text := given(b, chromedp.TextContent("main")); !strings.Contains(text, "2 newly denied") || !strings.Contains(text, "133 records, 1 input") {
		b.Errorf("what is simulated: %.3000s", text)
	}
}

// scripts says whether pages may run any.
func (b tab) scripts(run bool) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run}); err != nil {
		b.Fatal(err)
	}
}

// unreachable are the links that the keyboard does not come to and that lead where no other one leads; + and − of a record's cell are on its page.
const unreachable = `(() => {
	const links = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")];
	const reached = new Set(links.filter((e) => e.tabIndex >= 0).map((e) => e.getAttribute("href")));
	return links.filter((e) => e.tabIndex < 0 && !e.closest(".log .act") && !reached.has(e.getAttribute("href") ?? "none")).map((e) => e.outerHTML.slice(0, 200));
})()`

// focused says what is wrong with what has the focus; "" where nothing is.
const focused = `(() => {
	const e = document.activeElement, before = window.before;
	window.before = e;
	if (!e || e === document.body) return "";
	const name = e.outerHTML.slice(0, 160) + ": ";
	if (e === before) return name + "it keeps the focus";
	const box = [...e.getClientRects()].find((r) => r.width && r.height);
	if (!box) return name + "it is not shown";
	if (getComputedStyle(e).outlineStyle === "none") return name + "nothing says that it has the focus";
	const within = (x, most) => Math.min(Math.max(x, 0), most - 1);
	const at = document.elementFromPoint(within(box.left + box.width / 2, innerWidth), within(box.top + Math.min(box.height / 2, 8), innerHeight));
	return at && (e.contains(at) || at.contains(e)) ? "" : name + "it is under " + at?.outerHTML.slice(0, 100);
})()`

// walk goes from one control to the next by the keyboard, from the first and back from the last.
func (b tab) walk(name string) {
	b.Helper()
	const most = 12
	for _, link := range given(b, chromedp.Evaluate[[]string](unreachable)) {
		b.Errorf("%s: the keyboard does not come to %s", name, link)
	}
	n := given(b, chromedp.Evaluate[int](`[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].filter((e) => e.tabIndex >= 0 && e.checkVisibility()).length`))
	for _, back := range []bool{false, true} {
		key := chromedp.KeyEvent(kb.Tab)
		if back {
			key = chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))
			b.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(); [...document.querySelectorAll("main a[href], main button, main input")].filter((e) => e.tabIndex >= 0 && e.checkVisibility()).at(-1)?.focus(); window.before = null; undefined`))
		}
		for range min(n, most) {
			b.do(key)
			if wrong := given(b, chromedp.Evaluate[string](focused)); wrong != "" {
				b.Errorf("%s: %s", name, wrong)
			}
		}
	}
}

// TestOddLogsInBrowser looks at logs with nothing in them, with one record, and with names and times that nobody expects.
func TestOddLogsInBrowser(t *testing.T) {
	b := browser(t)
	axe := judge(t)
	for name, records := range map[string][]record.Record{"nothing": nil, "one": scene(t)[:1], "strange": strange(t)} {
		server := httptest.NewServer(served(t, records, configured(t, objects)))
		for i, path := range []string{"/", "/log?q=since:7d", "/log?q=since:7d&group=host", "/flows?q=since:7d", "/review", "/host?q=since:7d&name=" + strings.Repeat("x", 250)} {
			b.look(look{[]int64{400, 1280}[i%2], i%3 == 0})
			b.do(chromedp.Navigate(server.URL + path))
			b.usable(axe, name+" "+path)
		}
		server.Close()
	}
}

// strange are records of names and times that nobody expects.
func strange(t *testing.T) (out []record.Record) {
	for i, host := range []string{
		"\u05d0\u05d1\u05d2.\u05d3\u05d4.test", "xn--bcher-kva.example", "\U0001f600\u2764\ufe0f.example", "a" + strings.Repeat("\u0301", 12) + ".test", "\u202egpj.exe.test", "\x1b[31mred.test",
		strings.Repeat(strings.Repeat("l", 63)+".", 3) + "example", strings.Repeat("x", 250), "2001:db8::17", "203.0.113.77", "", "*.example.com", "-", " spaces in it ", "\u3164\u3164.test", "\u0645\u0631\u062d\u0628\u0627.test", "trailing.example.",
	} {
		r := scene(t)[i]
		r.Epoch, r.Host, r.URLPath = 9, host, "/"+host+"/"+strings.Repeat("segment/", 100*(i%2))
		r.Time = []time.Time{noon, noon.Add(-72 * time.Hour), noon.AddDate(50, 0, 0), time.Unix(0, 0), noon.Add(-time.Nanosecond)}[i%5]
		r.Verdict = []record.Verdict{record.Allowed, record.Denied}[i%2]
		r.Bound()
		out = append(out, r)
	}
	return out
}

// TestWithoutScripts filters by keyboard alone, in a browser that runs no scripts.
func TestWithoutScripts(t *testing.T) {
	b := browser(t)
	server := httptest.NewServer(served(t, scene(t), nil))
	defer server.Close()
	b.scripts(false)
	b.do(chromedp.Navigate(server.URL+"/log"), chromedp.SendKeys("#q", "verdict:denied host:x1.*"+kb.Enter), chromedp.WaitReady(".chips"))
	if at := given(b, chromedp.Location()); !strings.HasSuffix(at, "/log?q=verdict%3Adenied+host%3Ax1.*") {
		t.Error(at)
	}
	if text := given(b, chromedp.TextContent("main")); !strings.Contains(text, "7 records") || strings.Contains(text, "x2.tracker") {
		t.Errorf("%.2000s", text)
	}
	b.do(chromedp.Click(".chips a"), chromedp.WaitNotPresent(".chips li:nth-child(2)"))
	if shown := given(b, chromedp.Evaluate[bool](`document.getElementById("live").hidden`)); !shown {
		t.Error("the page offers what needs scripts")
	}
}

// TestWithScripts chooses a time by dragging, and follows the log.
func TestWithScripts(t *testing.T) {
	b := browser(t)
	s := stored(t, scene(t))
	server := httptest.NewServer(console(t, s, nil))
	defer server.Close()
	b.look(look{1280, false})
	b.do(chromedp.Navigate(server.URL+"/log?q=host:live.test"), chromedp.Click("#live button"), chromedp.WaitReady("#live button[aria-pressed=true]"))
	r := scene(t)[0]
	r.Seq, r.Epoch, r.Host, r.Time = 1, 2, "live.test", noon.Add(-time.Minute)
	if err := s.Store(t.Context(), []record.Record{r}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.WaitReady("table.log"))
	if text := given(b, chromedp.TextContent("main")); !strings.Contains(text, "1 record,") {
		t.Errorf("%.2000s", text)
	}
	b.do(chromedp.Navigate(server.URL + "/log?q=verdict:denied"))
	box := given(b, chromedp.Evaluate[[]float64](`(({x, y, width, height}) => [x, y, width, height])(document.querySelector(".chart svg").getBoundingClientRect())`))
	y := box[1] + box[3]/2
	b.do(chromedp.DragAndDropXY(box[0]+box[2]*0.5, y, box[0]+box[2]*0.75, y, 5), chromedp.WaitReady(".chips li:nth-child(2)"))
	q := given(b, chromedp.Evaluate[string](`new URL(location).searchParams.get("q")`))
	e, err := query.ParseExpression(q)
	if err != nil || !strings.HasPrefix(q, "verdict:denied ") {
		t.Fatal(q, err)
	}
	f, err := e.Filter(noon, "")
	if err != nil || f.Since.Sub(noon.Add(-12*time.Hour)).Abs() > 10*time.Minute || f.Until.Sub(noon.Add(-6*time.Hour)).Abs() > 10*time.Minute {
		t.Errorf("%s: %v – %v, %v", q, f.Since, f.Until, err)
	}
}
