package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// ruleChoice says which rules run, and how they are set.
type ruleChoice struct {
	prefix            string // of the flags
	dir, feed         string
	only, except, set []string
}

// add declares the flags; those of a command that has others begin with a prefix.
func (c *ruleChoice) add(fs *pflag.FlagSet, prefix string) {
	c.prefix = prefix
	fs.StringVar(&c.dir, prefix+"rules", "", "folder with rules of your own, *.sql, beside those that are built in")
	fs.StringVar(&c.feed, prefix+"feed", "", "file with domains, one a line, each with all names below it; # begins a comment")
	fs.StringSliceVar(&c.only, prefix+"only", nil, "run these rules only, by id")
	fs.StringSliceVar(&c.except, prefix+"except", nil, "leave these rules out, by id")
	fs.StringArrayVar(&c.set, prefix+"set", nil, "ID.PARAM=VALUE: set a rule's parameter, like beacon.connections=6; repeat it")
}

// chosenRules are what the choice leads to.
type chosenRules struct {
	rules    []*detect.Rule
	settings detect.Settings
	feed     *detect.Feed
	broken   error // files that are no rules; the others run
}

// load reads what was chosen. An error is of a wrong call.
func (c *ruleChoice) load() (*chosenRules, error) {
	chosen := &chosenRules{rules: detect.BuiltIn()}
	if c.dir != "" {
		if info, err := os.Stat(c.dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("--%srules %q: there is no such folder", c.prefix, c.dir)
		}
		own, broken := detect.LoadDir(c.dir)
		all, taken := detect.Merge(chosen.rules, own)
		chosen.rules, chosen.broken = all, errors.Join(broken, taken)
	}
	var err error
	if chosen.settings, err = detect.ParseSettings(c.set, chosen.rules); err != nil {
		return nil, fmt.Errorf("--%sset: %w", c.prefix, err)
	}
	for flag, ids := range map[string][]string{"only": c.only, "except": c.except} {
		for _, id := range ids {
			if !slices.ContainsFunc(chosen.rules, func(r *detect.Rule) bool { return r.ID == id }) {
				return nil, fmt.Errorf("--%s%s %q: there is no such rule; there are %s", c.prefix, flag, id, idsOf(chosen.rules))
			}
		}
	}
	chosen.rules = slices.DeleteFunc(chosen.rules, func(r *detect.Rule) bool {
		return len(c.only) > 0 && !slices.Contains(c.only, r.ID) || slices.Contains(c.except, r.ID)
	})
	if len(chosen.rules) == 0 {
		return nil, fmt.Errorf("--%[1]sonly and --%[1]sexcept leave no rule", c.prefix)
	}
	if c.feed != "" {
		if chosen.feed, err = detect.LoadFeed(c.feed); err != nil {
			return nil, fmt.Errorf("--%sfeed %q: %w", c.prefix, c.feed, err)
		}
	}
	return chosen, nil
}

func idsOf(rules []*detect.Rule) string {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.ID
	}
	return strings.Join(ids, ", ")
}

// policyRules are the rules of the EgressPolicies in a directory.
func policyRules(ctx context.Context, flag, dir, meshConfig string, errs io.Writer) ([]detect.PolicyRule, error) {
	if err := program.Directory(flag, dir); err != nil {
		return nil, err
	}
	snapshot, err := readOnce(ctx, flag, dir, meshConfig, errs)
	if err != nil {
		return nil, err
	}
	return rulesOf(snapshot), nil
}

func rulesOf(s *registry.Snapshot) []detect.PolicyRule {
	rules := []detect.PolicyRule{}
	for _, ns := range s.PolicedNamespaces() {
		for _, p := range s.Policies(ns) {
			for i := range p.Rules {
				rules = append(rules, detect.PolicyRule{
					Namespace: p.Key.Namespace, Policy: p.Key.Name, Rule: p.Rules[i].Name, Ends: p.Rules[i].Until, Since: p.Created,
				})
			}
		}
	}
	return rules
}
