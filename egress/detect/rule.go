package detect

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Rule is one detection: what to look for, and what people have to know about it.
type Rule struct {
	ID             string   `json:"id"`
	Title          string   `json:"title"`
	Severity       Severity `json:"severity"`
	Attack         []string `json:"attack,omitempty"` // techniques of MITRE ATT&CK, like T1071.001
	Finds          string   `json:"finds"`
	Why            string   `json:"why,omitempty"`
	Tuning         string   `json:"tuning,omitempty"`
	FalsePositives string   `json:"falsePositives,omitempty"`
	Needs          []string `json:"needs,omitempty"` // what has to be given beside the log: InputFeed, InputRules, InputProxies
	Params         []Param  `json:"params,omitempty"`
	File           string   `json:"file"`

	text string // the whole file; its header is comments
}

// Param is a number or the like in a rule that its users may set.
type Param struct {
	Name    string `json:"name"`
	Type    string `json:"type"` // integer, number, duration, texts
	Default string `json:"default"`
	Doc     string `json:"doc"`
}

// Bounds of what is read of a folder.
const (
	maxRuleBytes = 64 << 10
	maxRules     = 200
)

//go:embed rules/*.sql
var builtIn embed.FS

// BuiltIn are the rules that come with the program, by their ids.
func BuiltIn() []*Rule {
	rules, err := load(builtIn, "rules", "built in: ")
	if err != nil {
		panic(err) // the files are embedded, and tested
	}
	return rules
}

// LoadDir reads the *.sql files of a folder. A file that is wrong is named in the error, and the others are given all the same.
func LoadDir(dir string) ([]*Rule, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", dir)
	}
	if err != nil {
		return nil, err
	}
	return load(os.DirFS(dir), ".", dir+string(filepath.Separator))
}

// load reads the rules of a folder; prefix is how its files are named to people.
func load(files fs.FS, dir, prefix string) (rules []*Rule, err error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, entry := range entries {
		if entry.IsDir() || path.Ext(entry.Name()) != ".sql" {
			continue
		}
		if len(rules) == maxRules {
			return rules, errors.Join(append(errs, fmt.Errorf("%s: more than %d rules: those from %s on are left out", prefix, maxRules, entry.Name()))...)
		}
		rule, err := readRule(files, path.Join(dir, entry.Name()), prefix+entry.Name())
		if err == nil {
			rules, err = add(rules, rule)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	slices.SortFunc(rules, func(a, b *Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules, errors.Join(errs...)
}

func readRule(files fs.FS, name, shown string) (*Rule, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRuleBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	if len(text) > maxRuleBytes {
		return nil, fmt.Errorf("%s: a rule has %d bytes at most", shown, maxRuleBytes)
	}
	return Parse(shown, string(text))
}

// Merge puts a user's rules beside others. One whose id is taken is left out, and named.
func Merge(rules, more []*Rule) ([]*Rule, error) {
	all := slices.Clone(rules)
	var errs []error
	for _, rule := range more {
		var err error
		if all, err = add(all, rule); err != nil {
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

func add(rules []*Rule, rule *Rule) ([]*Rule, error) {
	for _, other := range rules {
		if other.ID == rule.ID {
			return rules, fmt.Errorf("%s: id %q is that of %s already: give it another", rule.File, rule.ID, other.File)
		}
	}
	return append(rules, rule), nil
}
