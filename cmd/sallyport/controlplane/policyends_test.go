package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestPolicyEnds: rules with an end have it among the metrics, the others do not, and there are not too many.
func TestPolicyEnds(t *testing.T) {
	collected := func(text string) policyEnds {
		cfg := mesh.Default()
		var changes []config.Change
		result := decode.File("objects.yaml", []byte(text))
		for i := range result.Objects {
			changes = append(changes, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
		}
		s, _ := registry.New(&cfg).Apply(changes)
		return func() *registry.Snapshot { return s }
	}
	few := collected(`{apiVersion: egress.sallyport.io/v1alpha1, kind: EgressPolicy, metadata: {name: p, namespace: shop}, spec: {rules: [
  {name: pilot, action: Allow, expires: 2030-12-31T00:00:00Z}, {action: Deny}]}}`)
	if got := measured(t, few); !slices.Equal(got, []string{"namespace=shop,policy=p,rule=pilot 1924905600"}) {
		t.Errorf("%q", got)
	}
	var many strings.Builder
	for i := range 11 {
		fmt.Fprintf(&many, "---\n{apiVersion: egress.sallyport.io/v1alpha1, kind: EgressPolicy, metadata: {name: p%d, namespace: shop}, spec: {rules: [%s]}}\n",
			i, strings.Repeat("{action: Allow, expires: 2030-12-31T00:00:00Z}, ", 100))
	}
	if n := len(measured(t, collected(many.String()))); n != mostEnds {
		t.Errorf("%d are measured, of 1,100", n)
	}
}

// measured are what a scrape finds.
func measured(t *testing.T, c prometheus.Collector) (out []string) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(c)
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out = append(out, fmt.Sprintf("%s %.0f", strings.Join(labels, ","), m.GetGauge().GetValue()))
		}
	}
	return out
}
