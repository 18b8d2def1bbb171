package ocsftest

import (
	"strings"
	"testing"
)

// TestCheckSees: what is wrong is found.
func TestCheckSees(t *testing.T) {
	s, err := load()
	if err != nil {
		t.Skip(err)
	}
	const good = `{"class_uid":4001,"category_uid":4,"activity_id":6,"type_uid":400106,"severity_id":1,"time":1,"action_id":1,"src_endpoint":{"name":"a"},
		"metadata":{"version":"1.8.0","profiles":["security_control"],"product":{"name":"x"}}}`
	if problems := s.check([]byte(good)); problems != nil {
		t.Error(problems)
	}
	for from, to := range map[string]string{
		`"time":1,`: ``, `"activity_id":6`: `"activity_id":55`, `"severity_id":1`: `"severity_id":"low"`, `"security_control"`: `"host"`, `{"name":"a"}`: `{}`,
		`"src_endpoint"`: `"source"`, `4001`: `4`, `1.8.0`: `1.4.0`, `["security_control"]`: `"security_control"`,
	} {
		if problems := s.check([]byte(strings.Replace(good, from, to, 1))); problems == nil {
			t.Errorf("%s instead of %s is good", to, from)
		}
	}
}
