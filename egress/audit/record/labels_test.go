package record

import (
	"fmt"
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("key-%04d", i)] = strings.Repeat("v", 63)
	}
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   string
		cut    bool
	}{
		{"none", nil, "", false},
		{"in order", map[string]string{"b": "2", "a": "1", "c": ""}, "a=1,b=2,c=", false},
		{"without numbers of controllers", map[string]string{"app": "cart", "pod-template-hash": "6b7", "controller-revision-hash": "x"}, "app=cart", false},
		{"what would read as another label", map[string]string{"a": "1,admin=yes", "b=c": "d", "e": "f"}, "e=f", true},
		{"a megabyte", map[string]string{"a": strings.Repeat("x", 1<<20), "b": "c"}, "b=c", true},
	} {
		if got, cut := Labels(tt.labels); got != tt.want || cut != tt.cut {
			t.Errorf("%s: %.80q, %v", tt.name, got, cut)
		}
	}
	text, cut := Labels(many)
	if !cut || len(text) > MaxLabels || len(text) < MaxLabels*9/10 || strings.Count(text, ",")+1 != strings.Count(text, "=") {
		t.Errorf("%d bytes, %v", len(text), cut)
	}
}
