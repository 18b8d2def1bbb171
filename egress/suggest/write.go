package suggest

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/sallyport/sallyport/config/visible"
)

// mostLines bounds the evidence that a comment has.
const mostLines = 20

// WriteYAML writes what is to be applied, with its evidence in comments. What is to be removed is a comment, too.
func (r *Result) WriteYAML(out io.Writer) error {
	var b strings.Builder
	r.head(&b)
	for i := range r.Changes {
		c := &r.Changes[i]
		b.WriteString("---\n")
		c.comments(&b)
		if c.After == nil {
			fmt.Fprintf(&b, "# remove it: kubectl delete %s -n %s %s\n", strings.ToLower(string(c.Key().Kind)), c.Key().Namespace, c.Key().Name)
			continue
		}
		text, err := YAML(c.After)
		if err != nil {
			return err
		}
		b.WriteString(text)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// head says what is of the whole.
func (r *Result) head(b *strings.Builder) {
	if len(r.Changes) == 0 {
		b.WriteString("# nothing is suggested: what is in force covers what was seen\n")
	}
	for _, note := range r.Notes {
		comment(b, note)
	}
	for i, l := range r.LeftOut {
		if i == mostLines {
			comment(b, fmt.Sprintf("%d more are left out; -o json has %d of them", len(r.LeftOut)-i, len(r.LeftOut)))
			break
		}
		comment(b, fmt.Sprintf("left out: %s to %s (%d records): %s", l.Workload, hostPort(l.Host, l.Port), l.Records, l.Why))
	}
	if r.NotTold > 0 {
		comment(b, fmt.Sprintf("%d records beyond those are left out, too", r.NotTold))
	}
}

// comment writes a text as one line, whatever is in it: it is read on terminals, and by those who judge what is to be applied.
func comment(b *strings.Builder, text string) {
	b.WriteString("# " + visible.Text(text) + "\n")
}

func (c *Change) comments(b *strings.Builder) {
	what := map[string]string{"create": "new", "change": "changed", "remove": "unused"}[c.Action()]
	comment(b, fmt.Sprintf("%s: %s", what, c.Key()))
	for _, note := range c.Notes {
		comment(b, note)
	}
	for i, l := range c.Evidence {
		if i == mostLines {
			comment(b, fmt.Sprintf("and %d more; -o json has them", len(c.Evidence)-i))
			break
		}
		comment(b, l.String())
	}
}

func hostPort(host string, port uint32) string {
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// String is the line for people.
func (l Line) String() string {
	return fmt.Sprintf("%s to %s (%s, %s): %s to %s, on %s, by %s, %s, %s out and %s in", l.Workload, hostPort(shown(l.Host), l.Port), protocolShown(l.Protocol), l.Verdict,
		moment(l.First), moment(l.Last), plural(uint64(len(l.Days)), "day"), plural(uint64(l.Pods()), "pod"), plural(l.Records, "record"), bytesShown(l.BytesReceived), bytesShown(l.BytesSent))
}

func protocolShown(p string) string {
	switch p {
	case "http", "tls", "tcp", "dns":
		return p
	}
	return "?"
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bytesShown is a number of bytes for people (IEC 80000-13).
func bytesShown(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// WriteDiff writes how the objects in force would change.
func (r *Result) WriteDiff(out io.Writer) error {
	var b strings.Builder
	r.head(&b)
	for i := range r.Changes {
		c := &r.Changes[i]
		c.comments(&b)
		d := difflib.UnifiedDiff{FromFile: "/dev/null", ToFile: "/dev/null", Context: 3}
		if c.Before != nil {
			text, err := YAML(c.Before)
			if err != nil {
				return err
			}
			d.FromFile, d.A = "in force: "+c.Before.String(), difflib.SplitLines(strings.TrimSuffix(text, "\n"))
		}
		if c.After != nil {
			text, err := YAML(c.After)
			if err != nil {
				return err
			}
			d.ToFile, d.B = "suggested: "+c.After.String(), difflib.SplitLines(strings.TrimSuffix(text, "\n"))
		}
		if err := difflib.WriteUnifiedDiff(&b, d); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Document is the result as -o json prints it.
type Document struct {
	Since       time.Time       `json:"since,omitzero"`
	Oldest      time.Time       `json:"oldest,omitzero"` // when the log's oldest record came in
	Gaps        uint64          `json:"gaps"`
	Suggestions []DocumentEntry `json:"suggestions"`
	LeftOut     []LeftOut       `json:"leftOut"`
	NotTold     uint64          `json:"notTold"` // records of what is left out beyond those
	Notes       []string        `json:"notes"`
}

// DocumentEntry is one object of it.
type DocumentEntry struct {
	Action    string         `json:"action"` // create, change or remove
	Kind      string         `json:"kind"`
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Object    map[string]any `json:"object,omitempty"` // as it is to be
	Notes     []string       `json:"notes"`
	Evidence  []DocumentLine `json:"evidence"`
}

// DocumentLine is evidence.
type DocumentLine struct {
	Workload      string    `json:"workload"`
	Host          string    `json:"host"`
	Port          uint32    `json:"port"`
	Protocol      string    `json:"protocol"`
	Verdict       string    `json:"verdict"`
	First         time.Time `json:"first"`
	Last          time.Time `json:"last"`
	DaysActive    int       `json:"daysActive"`
	Replicas      int       `json:"replicas"`
	Records       uint64    `json:"records"`
	BytesSent     uint64    `json:"bytesSent"` // towards the workload
	BytesReceived uint64    `json:"bytesReceived"`
}

// Document writes it for programs.
func (r *Result) Document() (Document, error) {
	d := Document{
		Since: r.Log.Since, Oldest: r.Log.Oldest, Gaps: r.Log.Gaps, NotTold: r.NotTold,
		Suggestions: []DocumentEntry{}, LeftOut: append([]LeftOut{}, r.LeftOut...), Notes: append([]string{}, r.Notes...),
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		e := DocumentEntry{Action: c.Action(), Kind: string(c.Key().Kind), Namespace: c.Key().Namespace, Name: c.Key().Name, Notes: append([]string{}, c.Notes...), Evidence: []DocumentLine{}}
		if c.After != nil {
			var err error
			if e.Object, err = Manifest(c.After); err != nil {
				return d, err
			}
		}
		for _, l := range c.Evidence {
			e.Evidence = append(e.Evidence, l.Document())
		}
		d.Suggestions = append(d.Suggestions, e)
	}
	return d, nil
}

// Document writes the line for programs.
func (l Line) Document() DocumentLine {
	return DocumentLine{l.Workload, shown(l.Host), l.Port, protocolShown(l.Protocol), l.Verdict, l.First, l.Last, len(l.Days), l.Pods(), l.Records, l.BytesSent, l.BytesReceived}
}
