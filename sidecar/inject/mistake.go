package inject

import (
	"fmt"
	"strings"
)

// Mistake is something in a pod that cannot be done as it is written.
type Mistake struct {
	Field   string // `annotation "sidecar.istio.io/proxyCPU"`, "spec.volumes[2].name"
	Value   string
	Problem string
	Fix     string
}

// String gives it as one line.
func (m Mistake) String() string {
	value := m.Value
	if len(value) > 120 {
		value = strings.ToValidUTF8(value[:117], "") + "..."
	}
	return fmt.Sprintf("%s: %q: %s; %s", m.Field, value, m.Problem, m.Fix)
}

// RefusedError refuses a pod: it asks for a proxy in a way that cannot be.
type RefusedError struct {
	Pod      string // NAMESPACE/NAME
	Mistakes []Mistake
}

func (e *RefusedError) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = "pod " + e.Pod + ": " + m.String()
	}
	return strings.Join(lines, "\n")
}
