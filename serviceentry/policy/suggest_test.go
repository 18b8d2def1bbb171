package policy_test

import (
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// helps holds that what is suggested is a good object, and that applying it lets the destination through.
func helps(t *testing.T, w policy.Workload, d policy.Destination, base string) {
	t.Helper()
	s := read(t, false, base)
	text := policy.Suggestion(w, d, policy.Decide(s, w, d))
	if text == "" {
		return
	}
	result := decode.File("suggestion.yaml", []byte(text))
	if admission.Refused(result.Findings) || len(result.Objects) != 1 {
		t.Fatalf("%+v: %v\n%s", d, result.Findings, text)
	}
	var all []config.Object
	all = append(all, result.Objects...)
	for _, o := range result.Objects {
		if f := admission.Validate(o); len(f) > 0 {
			t.Fatalf("%+v: %v\n%s", d, f, text)
		}
	}
	if f := admission.Check(all, mesh.Default()); admission.Refused(f) {
		t.Fatalf("%+v: %v\n%s", d, f, text)
	}
	if v := policy.Decide(read(t, false, base, text), w, d); !v.Allowed {
		t.Fatalf("%+v: with this applied it is still denied: %s\n%s", d, v.Reason, text)
	}
}

func TestSuggestion(t *testing.T) {
	for _, tt := range []struct {
		app, url string
		want     string // a line of it; "" for no suggestion
	}{
		{"", "https://nobody.test", `hosts: ["nobody.test"]`},
		{"", "http://nobody.test:8080", "- {number: 8080, name: http-8080, protocol: HTTP}"},
		{"", "tls://nobody.test:993", "- {number: 993, name: tls-993, protocol: TLS}"},
		{"", "tcp://nobody.test:5432", "- {number: 5432, name: tcp-5432, protocol: TCP}"},
		{"", "http://nobody.test:3306", "protocol: TCP}"},
		{"", "tcp://nobody.test:80", "protocol: TCP}"},
		{"", "tcp://203.0.113.9:5432", `addresses: ["203.0.113.9"]`},
		{"", "http://[2001:db8::9]:8080", `hosts: ["2001-0db8-0000-0000-0000-0000-0000-0009.address.internal"]`},
		{"", "https://203.0.113.9", `addresses: ["203.0.113.9"]`},
		{"", "https://private.test", "namespace: default"},
		{"", "tcp://a.wild.test:5432", `hosts: ["a.wild.test"]`},
		{"", "tcp://a.wild.test:80", `hosts: ["a.wild.test"]`},
		{"", "https://wild.test", `hosts: ["wild.test"]`},
		{"", "https://exact.test", ""},
		{"", "http://exact.test:443", ""},
		{"", "https://exact.test:8443", ""}, // another entry for the host would take the place of that one
		{"narrow", "https://shared.test", `hosts: ["shared.test"]`},
		{"shut", "https://nobody.test", ""}, // the Sidecar would hide it
	} {
		t.Run(tt.app+" "+tt.url, func(t *testing.T) {
			d := parse(t, tt.url)
			got := policy.Suggestion(from(tt.app), d, policy.Decide(read(t, false, objects), from(tt.app), d))
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("want %q in\n%s", tt.want, got)
			}
			helps(t, from(tt.app), d, objects)
		})
	}
}

func TestParseDestination(t *testing.T) {
	for url, want := range map[string]policy.Destination{
		"http://external.com":              {Scheme: policy.HTTP, Host: "external.com", Port: 80},
		"HTTP://External.COM./a/b?c#d":     {Scheme: policy.HTTP, Host: "external.com", Port: 80, Path: "/a/b?c"},
		"https://external.com:8443":        {Scheme: policy.HTTPS, Host: "external.com", Port: 8443},
		"tls://external.com:443":           {Scheme: policy.TLS, Host: "external.com", Port: 443},
		"tcp://db.external.com:5432":       {Scheme: policy.TCP, Host: "db.external.com", Port: 5432},
		"tcp://[2001:DB8:0::1]:5432":       {Scheme: policy.TCP, Host: "2001:db8::1", Port: 5432},
		"tcp://[::ffff:203.0.113.9]:65535": {Scheme: policy.TCP, Host: "203.0.113.9", Port: 65535},
		"http://web":                       {Scheme: policy.HTTP, Host: "web", Port: 80},
	} {
		if got, err := policy.ParseDestination(url); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	for url, want := range map[string]string{
		"external.com":              "none of http, https, tls, tcp",
		"ftp://external.com":        `"ftp" is none of`,
		"":                          "none of",
		"https://":                  "names no host",
		"tcp://external.com":        "write tcp://external.com:5432",
		"tls://external.com":        "has no port of its own",
		"http://external.com:0":     "not within 1…65535",
		"http://external.com:65536": "not within 1…65535",
		"http://external.com:x":     "invalid port",
		"https://*.external.com":    "a wildcard is not allowed",
		"https://exa_mple.com":      "letters, digits, hyphens and dots only",
		"https://-a.test":           "hyphen",
		"https://münchen.test":      "xn--",
		"tcp://[fe80::1%25eth0]:80": "zone",
		"http://ex ample.com":       "invalid character",
		"https://a..b":              "empty label",
		"http://%zz":                "invalid URL escape",
		"tcp://1.2.3:80":            "is a number",
		"https://" + strings.Repeat("a.", 200) + "test": "at most 253",
	} {
		if got, err := policy.ParseDestination(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", url, got, err, want)
		}
	}
}

// FuzzParseDestination: what is read is a destination that can be decided about, reads the same when it is written
// again, and gets a suggestion that helps, if it gets one.
func FuzzParseDestination(f *testing.F) {
	for _, s := range []string{
		"http://external.com/a?b", "https://external.com:8443", "tcp://[2001:db8::1]:5432", "tls://a-b.c:993", "tcp://10.0.0.1:80", "http://web",
		"tcp://a.wild.test:443", "https://203.0.113.7",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		d, err := policy.ParseDestination(url)
		if err != nil {
			return
		}
		if d.Port == 0 || d.Port > 65535 || d.Host == "" || d.Host != strings.ToLower(d.Host) {
			t.Fatalf("%q: %+v", url, d)
		}
		again, err := policy.ParseDestination(written(d))
		if err != nil || again.Host != d.Host || again.Port != d.Port || again.Scheme != d.Scheme {
			t.Fatalf("%q: %+v, and again %+v, %v", url, d, again, err)
		}
		helps(t, from(""), d, objects)
	})
}

func written(d policy.Destination) string {
	return string(d.Scheme) + "://" + net.JoinHostPort(d.Host, strconv.FormatUint(uint64(d.Port), 10))
}
