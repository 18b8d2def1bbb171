package redirect

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestSettingsErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // in the error
	}{
		{[]string{"-p", "0"}, `--envoy-port "0"`},
		{[]string{"-p", "15001", "-z", "15001"}, `--inbound-capture-port "15001": is also --envoy-port`},
		{[]string{"-z", "65536"}, `--inbound-capture-port "65536"`},
		{[]string{"-u", ""}, `--proxy-uid "": at least one id`},
		{[]string{"-u", "istio-proxy"}, `"istio-proxy" is not a numeric id`},
		{[]string{"-g", "4294967295"}, `--proxy-gid`},
		{[]string{"-m", "NONE"}, `--istio-inbound-interception-mode "NONE": say REDIRECT or TPROXY`},
		{[]string{"-t", "1338"}, `--istio-inbound-tproxy-mark "1338"`},
		{[]string{"-r", "254"}, `--istio-inbound-tproxy-route-table "254"`},
		{[]string{"-i", "10.0.0.0/8,*"}, `--istio-service-cidr "10.0.0.0/8,*": '*' is not allowed here`},
		{[]string{"-i", "10.0.0/8"}, `"10.0.0/8" is not a range`},
		{[]string{"-i", "fe80::1%eth0"}, `"fe80::1%eth0" is not a range`},
		{[]string{"-x", "*"}, `--istio-service-exclude-cidr "*"`},
		{[]string{"-x", "::ffff:10.0.0.0/104"}, `write it as IPv4`},
		{[]string{"-b", "80,http"}, `--istio-inbound-ports "80,http": "http" is not a port`},
		{[]string{"-d", "*"}, `--istio-local-exclude-ports "*"`},
		{[]string{"-q", "90:80"}, `"90:80" ends before it begins`},
		{[]string{"-o", "-1"}, `--istio-local-outbound-ports-exclude "-1"`},
		{[]string{"-c", "+"}, `--istio-exclude-interfaces "+"`},
		{[]string{"-c", "eth0 -j ACCEPT"}, `is not an interface name`},
		{[]string{"-c", "an-interface-name-too-long"}, `is not an interface name`},
		{[]string{"--dns-port", ""}, `--dns-port ""`},
		{[]string{"-d", strings.Repeat("1,", maxListed+1)}, `at most 1024`},
	} {
		_, err := settingsFrom(t, c.args, nil).Options(true)
		var flagErr *FlagError
		if !errors.As(err, &flagErr) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want a FlagError with %s", c.args, err, c.want)
		}
	}
}

func TestIPv6ChoiceError(t *testing.T) {
	if _, err := settingsFrom(t, []string{"--ipv6", "yes"}, nil).IPv6Choice(); err == nil || !strings.Contains(err.Error(), `--ipv6 "yes"`) {
		t.Errorf("got %v", err)
	}
}

func TestFromEnvironment(t *testing.T) {
	env := []string{"ENVOY_PORT=1501", "ISTIO_SERVICE_CIDR=", "ISTIO_LOCAL_EXCLUDE_PORTS=1,2", "ISTIO_META_DNS_CAPTURE=false", "PROXY_UID=5"}
	s := settingsFrom(t, []string{"-d", "3"}, env)
	if s.EnvoyPort != "1501" || s.ServiceCIDR != "*" || s.LocalExcludePorts != "3" || s.RedirectDNS {
		t.Errorf("got %+v", s)
	}
	if o, err := s.Options(false); err != nil || !reflect.DeepEqual(o.GIDs, []uint32{5}) {
		t.Errorf("group ids %v (%v), want those of -u", o.GIDs, err)
	}
	fs := pflag.NewFlagSet("init", pflag.ContinueOnError)
	Bind(fs)
	err := FromEnvironment(fs, func(name string) string { return map[string]string{"ISTIO_META_DNS_CAPTURE": "maybe"}[name] })
	if err == nil || !strings.Contains(err.Error(), `ISTIO_META_DNS_CAPTURE="maybe" (for --redirect-dns)`) {
		t.Errorf("got %v", err)
	}
}

// FuzzParsePrefixes: what is accepted is masked, canonical, of the right family, and survives being written and read again.
func FuzzParsePrefixes(f *testing.F) {
	for _, seed := range []string{"", "*", "10.0.0.0/8", "10.1.2.3/8, 2001:db8::1", "::/0,0.0.0.0/0", "::ffff:1.2.3.4", "1.2.3.4/-1", "fe80::%1/64"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		prefixes, err := parsePrefixes(value)
		if err != nil {
			return
		}
		var words []string
		for _, p := range prefixes {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() || p.Addr().Zone() != "" {
				t.Fatalf("%q: accepted %v", value, p)
			}
			words = append(words, p.String())
		}
		if n := len(IPv4.of(prefixes)) + len(IPv6.of(prefixes)); n != len(prefixes) {
			t.Fatalf("%q: %d prefixes, %d in the families", value, len(prefixes), n)
		}
		again, err := parsePrefixes(strings.Join(words, ","))
		if err != nil || !reflect.DeepEqual(again, prefixes) {
			t.Fatalf("%q: read again: %v (%v), want %v", value, again, err, prefixes)
		}
	})
}

// FuzzParsePorts: accepted ranges are in order and never hold port 0.
func FuzzParsePorts(f *testing.F) {
	for _, seed := range []string{"", "*", "80", "80, 443,", "8000:9000", "9000:8000", "0", "65536", "+80", "0x50", ":", "1:2:3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		ranges, err := parsePorts(value)
		if err != nil {
			return
		}
		for _, r := range ranges {
			if r.First == 0 || r.Last < r.First || !r.contains(r.First) || !r.contains(r.Last) {
				t.Fatalf("%q: accepted %v", value, r)
			}
		}
	})
}

// FuzzInterfaces: nothing that is accepted can be more than one word of a rule, or be taken for an option.
func FuzzInterfaces(f *testing.F) {
	for _, seed := range []string{"eth0", "eth+", "net1,net2", "-j", "a\nCOMMIT", "!", `"x y"`, "veth@if3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		names, err := parseInterfaces(value)
		if err != nil {
			return
		}
		for _, name := range names {
			if strings.ContainsAny(name, " \t\r\n\"\\'!#*") || strings.HasPrefix(name, "-") || name == "+" || len(name) > 15 {
				t.Fatalf("%q: accepted %q", value, name)
			}
		}
	})
}

func TestParsePrefixMasks(t *testing.T) {
	got, err := parsePrefixes("10.1.2.3/8,192.0.2.1, 2001:db8::1/32,")
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/32")}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}
