package redirect

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite testdata")

// settingsFrom parses arguments and KEY=VALUE lines as the command does.
func settingsFrom(t testing.TB, args, env []string) *Settings {
	t.Helper()
	fs := pflag.NewFlagSet("init", pflag.ContinueOnError)
	s := Bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	getenv := func(key string) string {
		for _, line := range env {
			if value, ok := strings.CutPrefix(line, key+"="); ok {
				return value
			}
		}
		return ""
	}
	if err := FromEnvironment(fs, getenv); err != nil {
		t.Fatal(err)
	}
	return s
}

func optionsFrom(t testing.TB, args ...string) Options {
	t.Helper()
	o, err := settingsFrom(t, args, nil).Options(true)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestPlans builds the plan for the "args" (one a line) and "env" of each file and compares it with its "plan". An argument of
// two quotes is the empty one.
func TestPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := func(name string) []string {
				for _, f := range archive.Files {
					if f.Name == name {
						return strings.Split(strings.TrimSuffix(string(f.Data), "\n"), "\n")
					}
				}
				return nil
			}
			args := lines("args")
			for i, arg := range args {
				if arg == "''" {
					args[i] = ""
				}
			}
			o, err := settingsFrom(t, args, lines("env")).Options(true)
			if err != nil {
				t.Fatal(err)
			}
			got := []byte(Build(o).Text())
			i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "plan" })
			if *update {
				if i < 0 {
					archive.Files, i = append(archive.Files, txtar.File{Name: "plan"}), len(archive.Files)
				}
				archive.Files[i].Data = got
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if i < 0 || !bytes.Equal(got, archive.Files[i].Data) {
				t.Errorf("plan differs (-update rewrites it):\n%s", cmp.Diff(string(archive.Files[i].Data), string(got)))
			}
		})
	}
}

func TestBuildWithoutIPv6(t *testing.T) {
	o := optionsFrom(t)
	o.IPv6 = false
	plan := Build(o)
	if len(plan.Families) != 1 || plan.Families[0].Family != IPv4 {
		t.Errorf("got %v, want IPv4 alone", plan.Families)
	}
}

// TestBuildOwnsItsChains keeps every rule inside chains that Clean knows, with jumps only from built-in chains, and every
// jump's end in the same table.
func TestBuildOwnsItsChains(t *testing.T) {
	for _, args := range [][]string{{}, {"-m", "TPROXY", "--block-quic"}, {"-b", "80", "-m", "TPROXY"}, {"--redirect-dns=false"}} {
		for _, f := range Build(optionsFrom(t, args...)).Families {
			for _, table := range f.Tables {
				if !slices.Contains(tableOrder, table.Name) {
					t.Errorf("%v: table %s is not in the order of writing", args, table.Name)
				}
				var names []string
				for _, c := range table.Chains {
					names = append(names, c.Name)
					if !isOurs(c.Name) {
						t.Errorf("%v: chain %s is not known as ours", args, c.Name)
					}
				}
				for _, c := range table.Chains {
					for _, rule := range c.Rules {
						if to := target(rule); isOurs(to) && !slices.Contains(names, to) {
							t.Errorf("%v: %s %s leads to a chain that the table lacks", args, table.Name, rule)
						}
					}
				}
				for _, j := range table.Jumps {
					if !slices.Contains(names, target(j.Rule)) || isOurs(j.From) {
						t.Errorf("%v: bad jump %v", args, j)
					}
				}
			}
		}
	}
}

func TestBuildIsPure(t *testing.T) {
	o := optionsFrom(t, "-x", "10.0.0.0/8,2001:db8::/32", "-i", "1.0.0.0/8,::/0")
	first := Build(o)
	if second := Build(o); !reflect.DeepEqual(first, second) {
		t.Error("equal options gave different plans")
	}
}

func TestNotes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "50:60"}, "DNS queries are not caught"},
		{[]string{"-u", "0"}, "no process that runs as root"},
		{[]string{"-b", "80,15000:15030", "-d", "15010,15020"}, "lists 15000:15030, so it is caught"},
	} {
		notes := strings.Join(Build(optionsFrom(t, c.args...)).Notes, "\n")
		if !strings.Contains(notes, c.want) {
			t.Errorf("%v: notes %q lack %q", c.args, notes, c.want)
		}
	}
	for _, args := range [][]string{{}, {"-b", "80"}, {"-b", "1:65535"}} {
		if notes := Build(optionsFrom(t, args...)).Notes; len(notes) > 0 {
			t.Errorf("%v: unexpected notes: %q", args, notes)
		}
	}
}

// TestAgentsPortsAreLeftAlone: caught, what comes to them would come from the proxy, and everybody's words would be the pod's own. It is so whoever lists
// them, or a range that they are in.
func TestAgentsPortsAreLeftAlone(t *testing.T) {
	for listed, leaves := range map[string][]string{
		"1:65535": {"15020", "15021", "15090"}, "80,15020": {"15020"}, "15021:15100": {"15021", "15090"}, "80,15022:15089": nil, "*": {"15020", "15021", "15090"},
	} {
		for _, mode := range []string{"REDIRECT", "TPROXY"} {
			for _, f := range Build(optionsFrom(t, "-b", listed, "-m", mode, "-d", "15090,15021,15020")).Families {
				var left []string
				for _, rule := range inboundOf(f) {
					if rest, ok := strings.CutPrefix(rule, "-p tcp -m tcp --dport "); ok && strings.HasSuffix(rest, " -j RETURN") {
						left = append(left, strings.TrimSuffix(rest, " -j RETURN"))
					} else if to := target(rule); to == chainInRedirect || to == chainTProxy || to == chainDivert {
						break // what comes below leaves nothing alone
					}
				}
				left = slices.DeleteFunc(left, func(port string) bool { return port == "15008" })
				slices.Sort(left)
				if !slices.Equal(left, leaves) {
					t.Errorf("-b %s -m %s, %s: %v are left alone, want %v", listed, mode, f.Family, left, leaves)
				}
			}
		}
	}
}

// inboundOf are the rules for what comes in by TCP.
func inboundOf(f FamilyPlan) []string {
	for _, t := range f.Tables {
		for _, c := range t.Chains {
			if c.Name == chainInbound && t.Name != "raw" {
				return c.Rules
			}
		}
	}
	return nil
}
