package detect

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Finding is something that a rule found.
type Finding struct {
	ID        string         `json:"id"` // the same as long as detection, namespace, workload, host and port are
	Detection string         `json:"detection"`
	Title     string         `json:"title"`
	Severity  Severity       `json:"severity"`
	Attack    []string       `json:"attack,omitempty"`
	Namespace string         `json:"namespace"`
	Workload  string         `json:"workload"`
	Host      string         `json:"host"`
	Port      uint32         `json:"port,omitempty"`
	First     time.Time      `json:"first"`
	Last      time.Time      `json:"last"`
	Count     uint64         `json:"count"`
	Score     float64        `json:"score"`
	Evidence  map[string]any `json:"evidence"`
}

// Columns are those that a rule's SELECT may have; every other one is evidence. The first ones it must have.
var (
	needed   = []string{"namespace", "workload", "host", "first", "last", "count"}
	optional = []string{"port", "score", "severity"}
)

// Bounds of a finding's texts, in bytes.
const (
	maxText     = 512
	maxEvidence = 4096
)

// finder is a query.RowSink that makes findings of a rule's rows.
type finder struct {
	rule  *Rule
	names []string
	take  func(Finding)
}

// Columns implements query.RowSink.
func (f *finder) Columns(names []string) error {
	for _, name := range needed {
		if !slices.Contains(names, name) {
			return fmt.Errorf("its SELECT has no column %q: it must have %s, and may have %s; all others are evidence", name,
				strings.Join(needed, ", "), strings.Join(optional, ", "))
		}
	}
	f.names = names
	return nil
}

// Row implements query.RowSink.
func (f *finder) Row(cells []any) (err error) {
	out := Finding{Detection: f.rule.ID, Title: f.rule.Title, Severity: f.rule.Severity, Attack: f.rule.Attack, Score: 1, Evidence: map[string]any{}}
	for i, name := range f.names {
		if err := out.set(name, cells[i]); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
	}
	out.bound()
	out.ID = out.identify()
	f.take(out)
	return nil
}

func (f *Finding) set(name string, cell any) (err error) {
	switch name {
	case "namespace":
		f.Namespace, err = textOf(cell)
	case "workload":
		f.Workload, err = textOf(cell)
	case "host":
		f.Host, err = textOf(cell)
	case "port":
		var n float64
		n, err = numberOf(cell)
		f.Port = uint32(min(max(n, 0), 65535))
	case "first":
		f.First, err = timeOf(cell)
	case "last":
		f.Last, err = timeOf(cell)
	case "count":
		var n float64
		n, err = numberOf(cell)
		f.Count = uint64(min(max(n, 0), math.MaxInt64)) // more than that no reader of JSON or SQL takes
	case "score":
		f.Score, err = numberOf(cell)
	case "severity":
		var text string
		if text, err = textOf(cell); err == nil && text != "" {
			f.Severity, err = ParseSeverity(text)
		}
	default:
		f.Evidence[name] = cell
	}
	return err
}

// identify makes the ID. It is so long that nobody finds two hosts with the same one: what was told once is not told again (watch).
func (f *Finding) identify() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d", f.Detection, f.Namespace, f.Workload, f.Host, f.Port))
	return f.Detection + "-" + hex.EncodeToString(sum[:16])
}

// bound cuts what others made long.
func (f *Finding) bound() {
	for _, text := range []*string{&f.Namespace, &f.Workload, &f.Host} {
		*text = cut(*text, maxText)
	}
	for name, value := range f.Evidence {
		if b, err := json.Marshal(value); err != nil || len(b) > maxEvidence {
			f.Evidence[name] = cut(fmt.Sprint(value), maxText)
		}
	}
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// order is the order of findings: the worst first, then by what they are about.
func order(a, b Finding) int {
	return cmp.Or(cmp.Compare(b.Severity, a.Severity), strings.Compare(a.Detection, b.Detection), cmp.Compare(b.Score, a.Score),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Workload, b.Workload), strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
}

// What cells are: see query.RowSink.

func textOf(cell any) (string, error) {
	switch c := cell.(type) {
	case nil:
		return "", nil
	case string:
		return c, nil
	}
	return "", fmt.Errorf("%v is no text", cell)
}

func numberOf(cell any) (float64, error) {
	if cell == nil {
		return 0, nil
	}
	n, err := strconv.ParseFloat(fmt.Sprint(cell), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) { // of which JSON has none: one of them would take all findings along
		return 0, fmt.Errorf("%.80q is no number", fmt.Sprint(cell))
	}
	return n, nil
}

func timeOf(cell any) (time.Time, error) {
	text, err := textOf(cell)
	if err != nil || text == "" {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("%.80q is no time", text)
	}
	return t.UTC(), nil
}
