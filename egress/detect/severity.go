package detect

import (
	"fmt"
	"slices"
	"strings"
)

// Severity is how bad a finding is if it is what it looks like; the numbers are OCSF's severity_id.
type Severity int

// The severities.
const (
	Informational Severity = iota + 1
	Low
	Medium
	High
	Critical
)

// Severities are their names, least first.
var Severities = []string{"informational", "low", "medium", "high", "critical"}

// ParseSeverity reads a name.
func ParseSeverity(text string) (Severity, error) {
	if i := slices.Index(Severities, strings.ToLower(text)); i >= 0 {
		return Severity(i + 1), nil
	}
	return 0, fmt.Errorf("severity %q: it is one of %s", text, strings.Join(Severities, ", "))
}

func (s Severity) String() string {
	if s < Informational || s > Critical {
		return "unknown"
	}
	return Severities[s-1]
}

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSeverity(string(text))
	return err
}
