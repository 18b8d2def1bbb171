package strict

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Problem is one place of the tree that does not fit its type.
type Problem struct {
	Field   string // the path: "spec.ports[0].protocol"
	Value   string // as written, in JSON, shortened to fit a line; empty for an unknown field
	Message string
	Fix     string // what to write instead
}

// Error gives the problem as one line.
func (p Problem) Error() string {
	if p.Value == "" {
		return fmt.Sprintf("%s: %s; %s", p.Field, p.Message, p.Fix)
	}
	return fmt.Sprintf("%s: %s: %s; %s", p.Field, p.Value, p.Message, p.Fix)
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Join adds a field's or map key's name to a path.
func Join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// index adds a list's index to a path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Show writes a value of the tree in JSON, shortened to fit a line.
func Show(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprintf("%.80v", v)
	}
	s := strings.TrimSuffix(b.String(), "\n")
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}

// kind names a value's type in the words of a YAML user.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	default:
		return "a number"
	}
}
