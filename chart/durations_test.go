package chart

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// durations are all values that are lengths of time, with what reads them in the programs; nil is somebody else's, Prometheus'.
var durations = map[string]func(string) (time.Duration, error){
	"audit.detect.every":                         query.ParseDuration,
	"audit.lake.every":                           query.ParseDuration,
	"audit.lake.iceberg.every":                   time.ParseDuration,
	"audit.lake.iceberg.keepSnapshots":           time.ParseDuration,
	"audit.lake.keepReplaced":                    query.ParseDuration,
	"audit.retention":                            query.ParseDuration,
	"controller.certTTL":                         time.ParseDuration,
	"injector.settings.minimumDrainDuration":     time.ParseDuration,
	"injector.settings.terminationDrainDuration": time.ParseDuration,
	"meshConfig.sallyport.audit.retention":       time.ParseDuration,
	"meshConfig.sallyport.ingress.idleTimeout":   time.ParseDuration,
	"meshConfig.sallyport.keepUnused":            time.ParseDuration,
	"monitoring.interval":                        nil,
	"gatewayAPI.settings.drain.delay":            time.ParseDuration,
	"gatewayAPI.settings.drain.max":              time.ParseDuration,
	"gatewayAPI.settings.drain.min":              time.ParseDuration,
}

// lengths are texts that could be lengths of time.
var lengths = []string{
	"", "0", "1", "-1s", "0s", "10s", "5m", "1h", "48h", "1.5h", "1h30m", "1.h", ".5h", "300ms", "5d", "1d12h", "1w", "1h5d", "1d5", "d", "5D", "5 m", "5min", "1h 5m", "70000d", "9999d", "99999999999h", "1e3s", "soon",
}

// TestDurationsAreUnderstood: what the schema takes for a length of time, the program that reads it understands, wherever one is asked for; and what it understands in hours, minutes or seconds the schema takes.
func TestDurationsAreUnderstood(t *testing.T) {
	s := readSchema(t)
	found := map[string]bool{}
	s.each("", s["properties"].(map[string]any), func(path string, value map[string]any) {
		if !s.takes(value, "1h") || s.takes(value, "abc") {
			return
		}
		found[path] = true
		parse, known := durations[path]
		if !known {
			t.Errorf("%s is a length of time, and it is not said who reads it", path)
		}
		if parse == nil {
			return
		}
		for _, text := range lengths {
			if _, err := parse(text); s.takes(value, text) && text != "" && err != nil {
				t.Errorf("%s: the schema takes %q, and the program says %v", path, text, err)
			}
		}
		for _, text := range []string{"10s", "5m", "1h", "48h", "1h30m"} {
			if !s.takes(value, text) {
				t.Errorf("%s: the schema refuses %q", path, text)
			}
		}
	})
	for _, path := range slices.Sorted(maps.Keys(durations)) {
		if !found[path] {
			t.Errorf("%s is no length of time by the schema", path)
		}
	}
}

// TestRequiredExpiries: likewise where a policy's rules have to end.
func TestRequiredExpiries(t *testing.T) {
	s := readSchema(t)
	s.each("", s["properties"].(map[string]any), func(path string, value map[string]any) {
		if path != "meshConfig.sallyport.policy.require[]" {
			return
		}
		for _, text := range append(lengths, "90d", "5x", "1.5d") {
			item := "expires<=" + text
			_, err := mesh.Parse([]byte("sallyport: {policy: {require: ['" + item + "']}}"))
			if s.takes(value, item) && err != nil && !strings.HasSuffix(text, "0s") {
				t.Errorf("the schema takes %q, and the controller says %v", item, err)
			}
		}
	})
}

// valuesSchema is the chart's, as it stands there.
type valuesSchema map[string]any

func readSchema(t *testing.T) (s valuesSchema) {
	t.Helper()
	content, err := os.ReadFile("values.schema.json")
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// each visits what may be texts, by path; "[]" is an item of a list.
func (s valuesSchema) each(path string, properties map[string]any, visit func(path string, value map[string]any)) {
	for name, value := range properties {
		s.visit(strings.TrimPrefix(path+"."+name, "."), s.resolved(value.(map[string]any)), visit)
	}
}

func (s valuesSchema) visit(path string, value map[string]any, visit func(path string, value map[string]any)) {
	if items, is := value["items"].(map[string]any); is {
		s.visit(path+"[]", s.resolved(items), visit)
		return
	}
	if below, is := value["properties"].(map[string]any); is {
		s.each(path, below, visit)
		return
	}
	visit(path, value)
}

func (s valuesSchema) resolved(value map[string]any) map[string]any {
	if ref, is := value["$ref"].(string); is {
		return s["definitions"].(map[string]any)[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	return value
}

// takes says whether a text may be there, as far as patterns and alternatives say.
func (s valuesSchema) takes(value map[string]any, text string) bool {
	value = s.resolved(value)
	if pattern, is := value["pattern"].(string); is && !regexp.MustCompile(pattern).MatchString(text) {
		return false
	}
	if exact, is := value["const"]; is && exact != text {
		return false
	}
	if list, is := value["enum"].([]any); is && !slices.Contains(list, any(text)) {
		return false
	}
	if not, is := value["not"].(map[string]any); is && s.takes(not, text) {
		return false
	}
	for _, one := range asList(value["allOf"]) {
		if !s.takes(one.(map[string]any), text) {
			return false
		}
	}
	if ways := asList(value["anyOf"]); len(ways) > 0 {
		return slices.ContainsFunc(ways, func(one any) bool { return s.takes(one.(map[string]any), text) })
	}
	return true
}

func asList(of any) []any {
	list, _ := of.([]any)
	return list
}
