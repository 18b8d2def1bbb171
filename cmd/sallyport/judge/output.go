package judge

import (
	"encoding/xml"
	"fmt"
	"io"

	"github.com/sallyport/sallyport/sidecar/verify"
)

// Summary counts verdicts.
type Summary struct {
	Closed  int `json:"closed"`
	Open    int `json:"open"`
	Skipped int `json:"skipped"`
	Unclear int `json:"error"`
}

// Sum counts the findings' verdicts.
func Sum(findings []Finding) Summary {
	var s Summary
	for _, f := range findings {
		switch f.Verdict {
		case verify.Closed:
			s.Closed++
		case verify.Open:
			s.Open++
		case verify.Skipped:
			s.Skipped++
		default:
			s.Unclear++
		}
	}
	return s
}

// String is the last line of a table.
func (s Summary) String() string {
	return fmt.Sprintf("%d open, %d closed, %d skipped, %d not to be told", s.Open, s.Closed, s.Skipped, s.Unclear)
}

// text is a finding's reason, and what to do.
func (f Finding) text() string {
	if f.Fix == "" {
		return f.Why
	}
	return f.Why + "\n→ " + f.Fix
}

// Table writes a line for each finding, and what to do below it.
func Table(w io.Writer, from string, findings []Finding) {
	fmt.Fprintf(w, "the ways out of %s\n", from)
	for _, f := range findings {
		fmt.Fprint(w, verify.Line(f.Result, f.text()))
	}
	fmt.Fprintln(w, Sum(findings))
}

// The elements of JUnit's XML that readers of it agree on.
type (
	suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Class   string  `xml:"classname,attr"`
		Name    string  `xml:"name,attr"`
		Failure *reason `xml:"failure"`
		Error   *reason `xml:"error"`
		Skipped *reason `xml:"skipped"`
		Out     string  `xml:"system-out,omitempty"`
	}
	reason struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the findings as test cases: what is open has failed, what nobody can tell is an error.
func JUnit(w io.Writer, from string, findings []Finding) error {
	sum := Sum(findings)
	s := suite{Name: "sallyport verify " + from, Tests: len(findings), Failures: sum.Open, Errors: sum.Unclear, Skipped: sum.Skipped}
	for _, f := range findings {
		c := testCase{Class: "verify." + f.Way, Name: f.Tried}
		why := &reason{Message: f.Why, Text: f.Fix}
		switch f.Verdict {
		case verify.Closed:
			c.Out = f.Why
		case verify.Open:
			c.Failure = why
		case verify.Skipped:
			c.Skipped = why
		default:
			c.Error = why
		}
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
