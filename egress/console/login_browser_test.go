package console

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestLoginInBrowser logs in and out in Chromium, without scripts of ours, on a narrow window.
func TestLoginInBrowser(t *testing.T) {
	b := browser(t, chromedp.Flag("ignore-certificate-errors", true))
	axe := judge(t)
	server := httptest.NewTLSServer(guarded(t))
	defer server.Close()
	b.look(look{400, false})
	says := func(words string) {
		t.Helper()
		if text := given(b, chromedp.Evaluate[string](`document.body.innerText`)); !strings.Contains(text, words) {
			t.Fatalf("the page does not say %q:\n%s", words, text)
		}
	}
	b.do(chromedp.Navigate(server.URL + "/log?q=verdict:denied"))
	says("Log in")
	b.usable(axe, "login")
	b.do(chromedp.SendKeys("#token", "nobody's"), chromedp.Click("main form button"), chromedp.WaitVisible("#problem"))
	says("does not know this token")
	b.usable(axe, "a wrong token")
	b.do(chromedp.SendKeys("#token", "owner"), chromedp.Click("main form button"), chromedp.WaitVisible("table.log"))
	says("x1.tracker.example.net")
	says("owner")
	b.usable(axe, "logged in")
	if at := given(b, chromedp.Evaluate[string](`location.pathname + location.search`)); at != "/log?q=verdict:denied" {
		t.Errorf("the login led to %s", at)
	}
	if seen := given(b, chromedp.Evaluate[string](`document.cookie`)); seen != "" {
		t.Errorf("scripts see %q", seen)
	}
	b.do(chromedp.Click(".who button"), chromedp.WaitVisible("#token"), chromedp.Navigate(server.URL+"/log"), chromedp.WaitVisible("#token"))
}
