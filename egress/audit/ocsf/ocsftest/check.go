// Package ocsftest holds events to the Open Cybersecurity Schema Framework's own schema, in tests: that which e2e/tools/ocsf fetches.
package ocsftest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// definition is a class, or an object.
type definition struct {
	UID         int                  `json:"uid"`
	Attributes  map[string]attribute `json:"attributes"`
	Constraints map[string][]string  `json:"constraints"`
}

type attribute struct {
	Type        string                     `json:"type"`
	Object      string                     `json:"object_type"`
	Requirement string                     `json:"requirement"`
	Profiles    []string                   `json:"profiles"` // with one of which it is there
	Array       bool                       `json:"is_array"`
	Enum        map[string]json.RawMessage `json:"enum"`
}

type schema struct {
	Version string                `json:"version"`
	Classes map[string]definition `json:"classes"`
	Objects map[string]definition `json:"objects"`
}

var load = sync.OnceValues(func() (*schema, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(cache, "sallyport", "ocsf-*", "schema.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there is no schema: run `make tools` (%w)", os.ErrNotExist)
	}
	slices.Sort(files)
	data, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return nil, err
	}
	s := &schema{}
	return s, json.Unmarshal(data, s)
})

// Check reports what is wrong with an event. Where the schema was not fetched it says so, and checks nothing.
func Check(t *testing.T, event []byte) {
	t.Helper()
	s, err := load()
	if err != nil {
		t.Logf("the event is not held to the schema: %v", err)
		return
	}
	for _, problem := range s.check(event) {
		t.Errorf("%s: %s", problem, event)
	}
}

func (s *schema) check(event []byte) []string {
	var e map[string]any
	if err := json.Unmarshal(event, &e); err != nil {
		return []string{err.Error()}
	}
	c := checker{schema: s}
	metadata, _ := e["metadata"].(map[string]any)
	if metadata["version"] != s.Version {
		c.say("metadata.version", "is not "+s.Version)
	}
	profiles, _ := metadata["profiles"].([]any)
	for _, p := range profiles {
		c.profiles = append(c.profiles, fmt.Sprint(p))
	}
	for _, class := range s.Classes {
		if float64(class.UID) == e["class_uid"] {
			c.object("", class, e)
			return c.problems
		}
	}
	c.say("class_uid", "is no class")
	return c.problems
}

type checker struct {
	*schema
	profiles []string
	problems []string
}

func (c *checker) say(where, what string) { c.problems = append(c.problems, where+" "+what) }

// applies says whether an attribute is there with the event's profiles.
func (c *checker) applies(a attribute) bool {
	return len(a.Profiles) == 0 || slices.ContainsFunc(a.Profiles, func(p string) bool { return slices.Contains(c.profiles, p) })
}

func (c *checker) object(where string, d definition, values map[string]any) {
	for name, value := range values {
		if a, known := d.Attributes[name]; known && c.applies(a) {
			c.attribute(where+"."+name, a, value)
		} else {
			c.say(where+"."+name, "is not in the schema")
		}
	}
	for name, a := range d.Attributes {
		if _, there := values[name]; !there && a.Requirement == "required" && c.applies(a) {
			c.say(where+"."+name, "is missing")
		}
	}
	if some := d.Constraints["at_least_one"]; len(some) > 0 && !slices.ContainsFunc(some, func(name string) bool { return values[name] != nil }) {
		c.say(where, fmt.Sprint("has none of ", some))
	}
}

func (c *checker) attribute(where string, a attribute, value any) {
	if list, is := value.([]any); a.Array {
		if !is {
			c.say(where, "is no list")
		}
		a.Array = false
		for _, v := range list {
			c.attribute(where+"[]", a, v)
		}
		return
	}
	switch a.Type {
	case "object_t":
		values, is := value.(map[string]any)
		d := c.Objects[a.Object]
		switch {
		case !is:
			c.say(where, "is no object")
		case len(d.Attributes) > 0: // others are free
			c.object(where, d, values)
		}
	case "integer_t", "long_t", "port_t", "timestamp_t", "float_t":
		n, is := value.(float64)
		if !is {
			c.say(where, "is no number")
		} else if _, known := a.Enum[strconv.FormatFloat(n, 'f', -1, 64)]; !known && len(a.Enum) > 0 {
			c.say(where, fmt.Sprint("is ", n, ", which has no meaning"))
		}
	case "boolean_t":
		if _, is := value.(bool); !is {
			c.say(where, "is no boolean")
		}
	case "json_t":
	default:
		if text, is := value.(string); !is {
			c.say(where, "is no text")
		} else if _, known := a.Enum[text]; !known && len(a.Enum) > 0 {
			c.say(where, "is "+text+", which has no meaning")
		}
	}
}
