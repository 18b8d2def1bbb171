package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Entry is the plugin's in a network's list of plugins.
type Entry struct {
	Type   string   `json:"type"`             // the name of its binary
	RunDir string   `json:"runDir"`           // where the agent listens
	Exempt []string `json:"exempt,omitempty"` // namespaces whose pods start without asking the agent
}

// list is a network's configuration, of which nothing is lost that is not known here.
type list map[string]any

func parse(text []byte) (list, []any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var l list
	if err := d.Decode(&l); err != nil {
		return nil, nil, err
	}
	plugins, ok := l["plugins"].([]any)
	if !ok || len(plugins) == 0 {
		return nil, nil, errors.New(`it has no list "plugins": it has to be a network configuration list (.conflist)`)
	}
	return l, plugins, nil
}

func (l list) write(plugins []any) ([]byte, error) {
	l["plugins"] = plugins
	text, err := json.MarshalIndent(l, "", "  ")
	return append(text, '\n'), err
}

func typeOf(plugin any) string {
	p, _ := plugin.(map[string]any)
	name, _ := p["type"].(string)
	return name
}

// With is a network's configuration with the entry at its end, once. It is the same text where that is so already.
func With(text []byte, e Entry) ([]byte, error) {
	l, plugins, err := parse(text)
	if err != nil {
		return nil, err
	}
	own, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	var wanted any
	if err := json.Unmarshal(own, &wanted); err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(plugins), func(p any) bool { return typeOf(p) == e.Type })
	if len(others) == 0 {
		return nil, fmt.Errorf("it has no plugin that makes a network")
	}
	if len(others) == len(plugins)-1 && reflect.DeepEqual(plugins[len(plugins)-1], wanted) {
		return text, nil
	}
	return l.write(append(others, wanted))
}

// Without is a network's configuration without plugins of that type. It is the same text where there are none.
func Without(text []byte, kind string) ([]byte, error) {
	l, plugins, err := parse(text)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(plugins), func(p any) bool { return typeOf(p) == kind })
	if len(others) == len(plugins) {
		return text, nil
	}
	return l.write(others)
}
