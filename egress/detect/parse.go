package detect

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	anID       = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	aTechnique = regexp.MustCompile(`^TA?[0-9]{4}(\.[0-9]{3})?$`)
	aParam     = regexp.MustCompile(`^param ([a-z][a-z_]*) (integer|number|duration|texts) = (.*)$`)
)

// Parse reads a rule's file. Its header is the comment that it begins with, a field a line:
//
//	-- id: beacon
//	-- finds: what it finds
//	--   goes on where lines are indented
//	-- param connections integer = 4: how many there are at least
//
// file is its name in messages.
func Parse(file, text string) (*Rule, error) {
	r := &Rule{File: file, text: text}
	var fields []field
	for i, line := range strings.Split(text, "\n") {
		comment, is := strings.CutPrefix(strings.TrimRight(line, " \t\r"), "--")
		if !is {
			break
		}
		switch more, indented := strings.CutPrefix(comment, "   "); {
		case strings.TrimSpace(comment) == "":
		case indented && len(fields) > 0:
			fields[len(fields)-1].value += " " + strings.TrimSpace(more)
		default:
			name, value, ok := strings.Cut(strings.TrimSpace(comment), ":")
			if !ok {
				return nil, fmt.Errorf("%s: line %d: %q: a header's line is a field, like \"-- id: beacon\", or goes on with the last one, indented", file, i+1, line)
			}
			fields = append(fields, field{i + 1, name, strings.TrimSpace(value)})
		}
	}
	for _, f := range fields {
		if err := r.set(f); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, f.line, err)
		}
	}
	for _, f := range [...]struct{ name, value string }{{"id", r.ID}, {"title", r.Title}, {"severity", severityOf(r)}, {"finds", r.Finds}} {
		if f.value == "" {
			return nil, fmt.Errorf("%s: line 1: the header has no field %q: write it as a comment at the top of the file, like \"-- %s: …\"", file, f.name, f.name)
		}
	}
	return r, nil
}

func severityOf(r *Rule) string {
	if r.Severity == 0 {
		return ""
	}
	return r.Severity.String()
}

// field is one of a header.
type field struct {
	line        int
	name, value string
}

// set takes a field of the header.
func (r *Rule) set(f field) (err error) {
	switch f.name {
	case "id":
		if r.ID = f.value; !anID.MatchString(f.value) {
			err = fmt.Errorf("id %q: lower-case letters, digits and -, 40 at most, a letter first", f.value)
		}
	case "title":
		r.Title = f.value
	case "severity":
		r.Severity, err = ParseSeverity(f.value)
	case "attack":
		for id := range strings.SplitSeq(f.value, ",") {
			if id = strings.TrimSpace(id); !aTechnique.MatchString(id) {
				return fmt.Errorf("attack %q: a technique of ATT&CK is written like T1071 or T1071.001", id)
			}
			r.Attack = append(r.Attack, id)
		}
	case "finds":
		r.Finds = f.value
	case "why":
		r.Why = f.value
	case "tuning":
		r.Tuning = f.value
	case "false positives":
		r.FalsePositives = f.value
	case "needs":
		if f.value != InputFeed && f.value != InputRules && f.value != InputProxies {
			err = fmt.Errorf("needs %q: it is %s, %s or %s", f.value, InputFeed, InputRules, InputProxies)
		}
		r.Needs = append(r.Needs, f.value)
	default:
		return r.setParam(f)
	}
	return err
}

// setParam takes "param NAME TYPE = DEFAULT: what it is".
func (r *Rule) setParam(f field) error {
	if !strings.HasPrefix(f.name, "param ") {
		return fmt.Errorf("%q is no field of a header: they are id, title, severity, attack, finds, why, tuning, false positives, needs, and param NAME TYPE = DEFAULT", f.name)
	}
	m := aParam.FindStringSubmatch(f.name)
	if m == nil {
		return fmt.Errorf("%q: write param NAME TYPE = DEFAULT: what it is; TYPE is integer, number, duration or texts", f.name)
	}
	p := Param{Name: m[1], Type: m[2], Default: strings.TrimSpace(m[3]), Doc: f.value}
	if slices.Contains(given, p.Name) || slices.ContainsFunc(r.Params, func(q Param) bool { return q.Name == p.Name }) {
		return fmt.Errorf("param %q: the name is taken", p.Name)
	}
	if _, err := p.literal(p.Default); err != nil {
		return fmt.Errorf("param %s: %w", p.Name, err)
	}
	r.Params = append(r.Params, p)
	return nil
}

// Settings are values of parameters, by rule and name.
type Settings map[string]map[string]string

// ParseSettings reads ID.PARAM=VALUE, and says which rule or parameter there is not.
func ParseSettings(texts []string, rules []*Rule) (Settings, error) {
	out := Settings{}
	var errs []error
	for _, text := range texts {
		if err := out.parse(text, rules); err != nil {
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

func (s Settings) parse(text string, rules []*Rule) error {
	name, value, ok := strings.Cut(text, "=")
	id, param, ok2 := strings.Cut(name, ".")
	if !ok || !ok2 {
		return fmt.Errorf("%q: write ID.PARAM=VALUE, like beacon.connections=6", text)
	}
	at := slices.IndexFunc(rules, func(r *Rule) bool { return r.ID == id })
	if at < 0 {
		return fmt.Errorf("%q: there is no rule %q", text, id)
	}
	var names []string
	for _, p := range rules[at].Params {
		if p.Name == param {
			if _, err := p.literal(value); err != nil {
				return fmt.Errorf("%q: %w", text, err)
			}
			if s[id] == nil {
				s[id] = map[string]string{}
			}
			s[id][param] = value
			return nil
		}
		names = append(names, p.Name)
	}
	return fmt.Errorf("%q: rule %s has no parameter %q; it has: %s", text, id, param, strings.Join(names, ", "))
}
