package selection

import (
	"testing"

	typev1beta1 "istio.io/api/type/v1beta1"
)

func TestSelects(t *testing.T) {
	web := &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": "web"}}
	target := func(group, kind, name string) []*typev1beta1.PolicyTargetReference {
		return []*typev1beta1.PolicyTargetReference{{Group: group, Kind: kind, Name: name}}
	}
	for name, c := range map[string]struct {
		of   Workloads
		want bool
	}{
		"all of its namespace":        {Of("shop", nil, nil, nil), true},
		"all of another":              {Of("else", nil, nil, nil), false},
		"the mesh":                    {Of("root", nil, nil, nil), true},
		"labels":                      {Of("shop", web, nil, nil), true},
		"labels in the mesh":          {Of("root", web, nil, nil), true},
		"labels in another":           {Of("else", web, nil, nil), false},
		"other labels":                {Of("shop", &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": ""}}, nil, nil), false},
		"a Service":                   {Of("shop", nil, nil, target("", "Service", "web")), true},
		"one target":                  {Of("shop", nil, target("core", "Service", "web")[0], nil), true},
		"another Service":             {Of("shop", nil, nil, target("", "Service", "db")), false},
		"another namespace's Service": {Of("root", nil, nil, target("", "Service", "web")), false},
		"a Gateway":                   {Of("shop", nil, nil, target(GatewayGroup, "Gateway", "door")), true},
		"another Gateway":             {Of("shop", nil, nil, target(GatewayGroup, "Gateway", "gate")), false},
		"Istio's Gateway":             {Of("shop", nil, nil, target("networking.istio.io", "Gateway", "door")), false},
		"a target that is for nobody": {Of("shop", nil, nil, target("", "Pod", "web")), false},
		"a Gateway without a name":    {Of("shop", nil, nil, target(GatewayGroup, "Gateway", "")), false},
	} {
		if got := c.of.Selects("root", "shop", map[string]string{"app": "web", GatewayName: "door"}, []string{"web"}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if Of("shop", nil, nil, target(GatewayGroup, "Gateway", "")).Selects("root", "shop", nil, nil) {
		t.Error("a Gateway without a name selects whoever has no label")
	}
}
