package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/review"
)

// TestReview decides about what a real `sallyport up` closed: what is approved is let through, a stale id is refused, and it is kept who decided.
func TestReview(t *testing.T) {
	programs := upPrograms(t)
	server := upServer(t)
	dir, data := programs.dir(t), filepath.Join(programs.dir(t), "data")
	hosts := []string{"good.test", "bad.test", "later.test"}
	names := upNameServer(t, map[string]string{"good.test.": "127.0.0.1"})
	up := programs.start(t, "up", dir, "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", "127.0.0.1:0", "--dns-server", names)
	up.says(t, "sallyport: ready")
	proxy := up.proxy(t)
	for _, host := range hosts {
		upEventually(t, "a host that nobody registered", asks(proxy, "GET", fmt.Sprintf("http://%s:%d/", host, server), 403))
	}
	where := []string{"--up", dir, "--data", data}
	call := func(args ...string) (string, int) {
		out, err := programs.run(t, append(append([]string{"review"}, args...), where...)...)
		return out, exitStatus(err)
	}
	list := func(more ...string) (items []review.Item, err error) {
		out, code := call(append([]string{"list", "-o", "json"}, more...)...)
		if code != 0 {
			return nil, fmt.Errorf("exit code %d: %s", code, out)
		}
		return items, json.Unmarshal([]byte(out), &items)
	}
	ids := map[string]string{}
	upEventually(t, "that all three wait", func() error {
		items, err := list()
		for _, i := range items {
			ids[i.Host] = i.ID
			if i.State != review.StateWaiting || i.Workload != upAccount || i.Port != uint32(server) || i.Records == 0 || i.Why == "" {
				return fmt.Errorf("%+v", i)
			}
		}
		if err != nil || len(items) != len(hosts) {
			return fmt.Errorf("%d items (%w)", len(items), err)
		}
		return nil
	})
	file := filepath.Join(dir, "good.yaml")
	said := func(args ...string) (d decided) {
		out, code := call(append(args, "-o", "json")...)
		_, object, _ := strings.Cut(out, "{") // behind what stands on standard error
		if err := json.NewDecoder(strings.NewReader("{" + object)).Decode(&d); code != 0 || err != nil || d.By == "" || d.At.IsZero() {
			t.Errorf("%v: exit code %d, %v: %s", args, code, err, out)
		}
		return d
	}
	if d := said("approve", ids["good.test"], "--write", file, "--reason", "asked for"); d.Host != "good.test" || d.File != file || d.Action != review.StateApproved || d.Reason != "asked for" || !strings.Contains(d.YAML, "good.test") {
		t.Fatalf("%+v", d)
	}
	upEventually(t, "what was approved", asks(proxy, "GET", fmt.Sprintf("http://good.test:%d/", server), 200))
	if d := said("reject", ids["bad.test"], "--reason", "a typo"); d.ID != ids["bad.test"] || d.Action != review.StateRejected {
		t.Errorf("%+v", d)
	}
	if d := said("snooze", ids["later.test"], "--for", "7d"); d.Until.Sub(d.At).Round(time.Hour) != 7*24*time.Hour {
		t.Errorf("%+v", d)
	}
	if items, err := list(); err != nil || len(items) != 0 {
		t.Error(items, err)
	}
	states := map[string]string{}
	items, err := list("--all")
	for _, i := range items {
		if i.Decision == nil || i.Decision.By == "" || i.Decision.At.IsZero() {
			t.Errorf("nobody decided: %+v", i)
		}
		states[i.Host] = i.State
	}
	if err != nil || states["good.test"] != review.StateApproved || states["bad.test"] != review.StateRejected || states["later.test"] != review.StateSnoozed {
		t.Error(states, err)
	}
	told, err := programs.run(t, "audit", "query", "class:action", "--data", data, "-o", "json")
	var did []record.Record
	if err := errors.Join(err, json.Unmarshal([]byte(told), &did)); err != nil || len(did) != 3 || did[1].Action != review.StateRejected || did[1].Actor == "" || did[1].ActorBy != record.BySystem ||
		did[1].Host != "bad.test" || did[1].Reason != "a typo" || did[1].Workload.ServiceAccount != upAccount {
		t.Errorf("%s, %v", told, err)
	}
	out, code := call("list", "--all")
	if code != 0 || !strings.Contains(out, "rejected by ") || !strings.Contains(out, ": a typo") {
		t.Error(code, out)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"approve", ids["good.test"]}, exitNo, "waits no more"},
		{[]string{"approve", ids["bad.test"]}, exitNo, "decided already: rejected by"},
		{[]string{"approve", ids["bad.test"], "--again"}, 0, "hosts: [bad.test]"},
		{[]string{"approve", ids["later.test"], "--again", "--write", file}, exitUsage, "the file is there already"},
		{[]string{"reject", "0123456789ab", "--reason", "x"}, exitNo, "nothing with this id waits"},
		{[]string{"reject", "../..", "--reason", "x"}, exitUsage, "12 hexadecimal digits"},
		{[]string{"reject", ids["later.test"]}, exitUsage, "--reason"},
		{[]string{"reject", ids["later.test"], "--reason", "a\nb"}, exitUsage, "control characters"},
		{[]string{"snooze", ids["later.test"]}, exitUsage, "give one of them"},
		{[]string{"snooze", ids["later.test"], "--for", "-1h"}, exitUsage, "must be in the future"},
		{[]string{"list", "-o", "yaml"}, exitUsage, "table or json"},
		{[]string{"approve", ids["later.test"], "-o", "table"}, exitUsage, "yaml or json"},
		{[]string{"snooze", ids["later.test"], "--for", "1h", "-o", "yaml"}, exitUsage, "text or json"},
	} {
		if out, code := call(tt.args...); code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%v: exit code %d, want %d and %q: %s", tt.args, code, tt.code, tt.want, out)
		}
	}
}
