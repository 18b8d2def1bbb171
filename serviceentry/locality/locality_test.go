package locality

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// at is an endpoint "REGION/ZONE/SUBZONE|LABELS*WEIGHT".
func at(text string) Endpoint {
	text, weight, _ := strings.Cut(text, "*")
	place, labels, _ := strings.Cut(text, "|")
	e := Endpoint{Locality: place, Label: func(key string) string {
		client := Client{Locality: place, Labels: labels}
		return client.label(key)
	}}
	_, _ = fmt.Sscan(weight, &e.Weight)
	return e
}

// TestSpread holds the groups to Istio's meaning of each setting: "PRIORITY LOCALITY=WEIGHT[MEMBERS]".
func TestSpread(t *testing.T) {
	type setting = networking.LocalityLoadBalancerSetting
	zones := []string{"r1/z1/s1", "r1/z1/s2", "r1/z2/s1", "r2/z1/s1", "r3/z1/s1", ""}
	failover := &setting{Failover: []*networking.LocalityLoadBalancerSetting_Failover{{From: "r1", To: "r3"}}}
	shares := func(from string, to map[string]uint32) *setting {
		return &setting{Distribute: []*networking.LocalityLoadBalancerSetting_Distribute{{From: from, To: to}}}
	}
	for _, c := range []struct {
		name   string
		in     *setting
		client Client
		list   []string
		want   string
	}{
		{"near ones first", &setting{}, Client{Locality: "r1/z1/s1"}, zones, "0 r1/z1/s1=1[0] 1 r1/z1/s2=1[1] 2 r1/z2/s1=1[2] 3 =1[5] 3 r2/z1/s1=1[3] 3 r3/z1/s1=1[4]"},
		{"no gaps", &setting{}, Client{Locality: "r9/z1"}, []string{"r2/z1", "r9/z3", "r2/z1*3"}, "0 r9/z3=1[1] 1 r2/z1=4[0 2]"},
		{"nobody knows where the client is", &setting{}, Client{}, []string{"r1", "r2"}, "0 r1=1[0] 0 r2=1[1]"},
		{"to one region", failover, Client{Locality: "r1/z1/s1"}, zones, "0 r1/z1/s1=1[0] 1 r1/z1/s2=1[1] 2 r1/z2/s1=1[2] 3 r3/z1/s1=1[4] 4 =1[5] 4 r2/z1/s1=1[3]"},
		{"of another region", failover, Client{Locality: "r2/z1/s1"}, []string{"r1", "r3"}, "0 r1=1[0] 0 r3=1[1]"},
		{"labels", &setting{FailoverPriority: []string{"version", LabelRegion}}, Client{Locality: "r1/z1", Labels: "version=1"},
			[]string{"r1|version=1", "r2|version=1", "r1|version=2", "r1"}, "0 r1=1[0] 1 r2=1[1] 2 r1=2[2 3]"},
		{"written values", &setting{FailoverPriority: []string{"version=2"}}, Client{Labels: "version=1"}, []string{"|version=1", "|version=2"}, "0 =1[1] 1 =1[0]"},
		{"neither has the label", &setting{FailoverPriority: []string{"version"}}, Client{}, []string{"", "|version=2"}, "0 =1[0] 1 =1[1]"},
		{"shares", shares("r1/*", map[string]uint32{"r1/z1/*": 80, "r2/*": 20}), Client{Locality: "r1/z1/s1"}, []string{"r1/z1", "r1/z2", "r2/z1", "r2/z2*3"},
			"0 r1/z1=8000[0] 0 r2/z1=500[2] 0 r2/z2=1500[3]"},
		{"shares of others", shares("r2", map[string]uint32{"r1": 100}), Client{Locality: "r1/z1"}, []string{"r1*2", "r2"}, "0 r1=2[0] 0 r2=1[1]"},
		{"shares by parts of a name", shares("r1", map[string]uint32{"r1/z1": 100}), Client{Locality: "r1"}, []string{"r1/z11", "r1/z1/s"}, "0 r1/z1/s=10000[1]"},
		{"much weight", &setting{}, Client{Locality: "r1"}, []string{"r1*4294967295", "r1*4294967295", "r2*2"}, "0 r1=2863311530[0 1] 1 r2=1[2]"},
	} {
		var list []Endpoint
		for _, text := range c.list {
			list = append(list, at(text))
		}
		var got []string
		for _, g := range Of(c.in, true).Spread(c.client, list) {
			got = append(got, fmt.Sprintf("%d %s=%d%v", g.Priority, g.Locality, g.Weight, g.Members))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, text, c.want)
		}
	}
}

// TestOf: a setting that is off, or fails over where nobody notices failures, changes nothing.
func TestOf(t *testing.T) {
	off := &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(false)}
	shares := &networking.LocalityLoadBalancerSetting{Distribute: []*networking.LocalityLoadBalancerSetting_Distribute{{From: "r"}}}
	for _, c := range []struct {
		in    *networking.LocalityLoadBalancerSetting
		fails bool
		want  bool
	}{{nil, true, false}, {off, true, false}, {shares, false, true}, {&networking.LocalityLoadBalancerSetting{}, false, false}, {&networking.LocalityLoadBalancerSetting{}, true, true}} {
		if got := Of(c.in, c.fails); (got != nil) != c.want {
			t.Errorf("%v, %t: %v", c.in, c.fails, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, c := range [][3]string{{"r", "z", "s"}, {"r", "z", ""}, {"r", "", ""}, {"", "", ""}, {"", "z", ""}} {
		text := Join(c[0], c[1], c[2])
		if r, z, s := Split(text); [3]string{r, z, s} != c {
			t.Errorf("%v: %q", c, text)
		}
	}
	for label, want := range map[string]string{"r.z.s": "r/z/s", "r/z.1": "r/z.1", "": ""} {
		if got := OfLabels(map[string]string{LabelPod: label}); got != want {
			t.Errorf("%s: %s", label, got)
		}
	}
}
