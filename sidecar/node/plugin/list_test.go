package plugin

import (
	"strings"
	"testing"
)

var entry = Entry{Type: "sallyport-cni", RunDir: "/run/x", Exempt: []string{"kube-system"}}

const network = `{"cniVersion": "1.0.0", "name": "n", "big": 12345678901234567890, "plugins": [{"type": "ptp", "mtu": 1500}]}`

// TestWith: the entry comes last, once, with what it says now, and nothing of others' is lost; without it all is as it was.
func TestWith(t *testing.T) {
	once, err := With([]byte(network), entry)
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{"12345678901234567890", `"mtu": 1500`, `"runDir": "/run/x"`} {
		if !strings.Contains(string(once), kept) {
			t.Errorf("%s is lost: %s", kept, once)
		}
	}
	if again, err := With(once, entry); err != nil || string(again) != string(once) {
		t.Errorf("a second time gives %s (%v)", again, err)
	}
	moved := entry
	moved.RunDir = "/run/y"
	other, err := With(once, moved)
	if err != nil || strings.Count(string(other), entry.Type) != 1 || strings.Contains(string(other), "/run/x") {
		t.Errorf("another run directory gives %s (%v)", other, err)
	}
	_, plugins, err := parse(other)
	if err != nil || typeOf(plugins[len(plugins)-1]) != entry.Type {
		t.Errorf("it does not come last: %v (%v)", plugins, err)
	}
	back, err := Without(other, entry.Type)
	if _, plugins, _ := parse(back); err != nil || len(plugins) != 1 {
		t.Errorf("without it: %s (%v)", back, err)
	}
	if same, err := Without([]byte(network), entry.Type); err != nil || string(same) != network {
		t.Errorf("where it is not, nothing changes: %s (%v)", same, err)
	}
}

// TestNoList: what the plugin cannot be added to stays as it is, and the words say why.
func TestNoList(t *testing.T) {
	for text, want := range map[string]string{
		`{"type": "bridge"}`: ".conflist",
		`{"plugins": []}`:    ".conflist",
		`{`:                  "EOF",
		`{"plugins": [{"type": "sallyport-cni"}]}`: "no plugin that makes a network",
	} {
		if _, err := With([]byte(text), entry); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
