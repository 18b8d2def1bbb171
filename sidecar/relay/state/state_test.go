package state

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

const clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, "node", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func flush(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
}

func resource(name, version string, size int) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: name, Version: version, Resource: &anypb.Any{TypeUrl: clusters, Value: bytes.Repeat([]byte(version), size)}}
}

func contents(t *testing.T, table *Table) string {
	t.Helper()
	var out []string
	for name, version := range table.Versions() {
		r, err := table.Resource(name)
		if err != nil {
			t.Fatal(err)
		}
		if r.GetVersion() != version || !bytes.HasPrefix(r.GetResource().GetValue(), []byte(version)) {
			t.Errorf("%s: version %s, body of %s", name, version, r.GetVersion())
		}
		out = append(out, name+"@"+version)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func logFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(files) != 1 {
		t.Fatalf("want one file, have %v, %v", files, err)
	}
	return files[0]
}

func TestSurvives(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	table := s.Table(clusters)
	table.Put(resource("a", "1", 10))
	table.Put(resource("b", "1", 10))
	flush(t, s)
	table.Put(resource("a", "2", 10))
	table.Remove("b")
	table.Put(resource("c", "1", 10))
	if got := contents(t, table); got != "a@2 c@1" {
		t.Errorf("before the flush: %s", got)
	}
	flush(t, s)
	if got := contents(t, table); got != "a@2 c@1" {
		t.Errorf("after the flush: %s", got)
	}
	s.Table("type.googleapis.com/empty").Accepted()
	flush(t, s)

	again := open(t, dir)
	if got := contents(t, again.Table(clusters)); got != "a@2 c@1" {
		t.Errorf("after a restart: %s", got)
	}
	if !again.Table("type.googleapis.com/empty").Known() || again.Table("type.googleapis.com/other").Known() {
		t.Error("an accepted empty answer must be known, another type must not")
	}
	if info, err := os.Stat(again.Table(clusters).path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestChangeCostsWhatChanged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	table := s.Table(clusters)
	for i := range 2000 {
		table.Put(resource("cluster-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "1", 500))
	}
	flush(t, s)
	before, err := os.Stat(logFile(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	table.Put(resource("cluster-a", "2", 500))
	flush(t, s)
	after, err := os.Stat(logFile(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if grown := after.Size() - before.Size(); grown < 500 || grown > 1000 || !os.SameFile(before, after) {
		t.Errorf("one changed resource of 500 bytes among 2000 added %d bytes", grown)
	}
}

func TestCompacts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	table := s.Table(clusters)
	table.Put(resource("still", "1", 100))
	for i := range 40 {
		table.Put(resource("a", string(rune('A'+i)), 20_000))
		flush(t, s)
	}
	info, err := os.Stat(logFile(t, dir))
	if err != nil || info.Size() > compactAbove+100_000 {
		t.Errorf("after 40 versions of 20 kB the file has %d bytes, %v", info.Size(), err)
	}
	want := "a@" + string(rune('A'+39)) + " still@1"
	if got := contents(t, table); got != want {
		t.Errorf("compacted: %s", got)
	}
	if got := contents(t, open(t, dir).Table(clusters)); got != want {
		t.Errorf("compacted, after a restart: %s", got)
	}
}

func TestTornAndForeignFiles(t *testing.T) {
	write := func(t *testing.T) (dir, path string, content []byte) {
		dir = t.TempDir()
		s := open(t, dir)
		for _, version := range []string{"1", "2"} {
			s.Table(clusters).Put(resource("a", version, 50))
			flush(t, s)
		}
		path = logFile(t, dir)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return dir, path, content
	}
	for name, test := range map[string]struct {
		damage func(content []byte) []byte
		want   string
	}{
		"tail cut off":   {func(b []byte) []byte { return b[:len(b)-3] }, "a@1"},
		"head cut off":   {func(b []byte) []byte { return b[:len(b)-len("a2")-100] }, "a@1"},
		"bit flipped":    {func(b []byte) []byte { b[len(b)-20] ^= 1; return b }, "a@1"},
		"zeros appended": {func(b []byte) []byte { return append(b, make([]byte, 100)...) }, "a@2"},
		"header damaged": {func(b []byte) []byte { b[10] ^= 1; return b }, ""},
		"empty":          {func([]byte) []byte { return nil }, ""},
		"another owner":  {func(b []byte) []byte { return append(frame(nil, opHead, header("other", clusters)), b...) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path, content := write(t)
			if err := os.WriteFile(path, test.damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir)
			table := s.Table(clusters)
			if got := contents(t, table); got != test.want {
				t.Errorf("have %q, want %q", got, test.want)
			}
			table.Put(resource("new", "1", 5))
			flush(t, s)
			if got := contents(t, open(t, dir).Table(clusters)); got != strings.TrimSpace(test.want+" new@1") {
				t.Errorf("written after the damage: %q", got)
			}
		})
	}
}

func TestRefusingDiskKeepsMemory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	table := s.Table(clusters)
	table.Put(resource("a", "1", 5))
	if err := s.Flush(); err == nil {
		t.Fatal("a directory that is gone cannot be written")
	}
	if got := contents(t, table); got != "a@1" {
		t.Errorf("have %q", got)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	flush(t, s)
	if got := contents(t, open(t, dir).Table(clusters)); got != "a@1" {
		t.Errorf("have %q", got)
	}
}

// Whatever a file holds, loading it neither fails to end nor invents resources that cannot be read back.
func FuzzLoad(f *testing.F) {
	whole := frame(nil, opHead, header("node", clusters))
	whole = frame(whole, opPut, []byte("\x1a\x01a\x0a\x011"))
	whole = frame(whole, opRemove, []byte("a"))
	f.Add(whole)
	f.Add(whole[:len(whole)-2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := load(bytes.NewReader(content), "node")
		if err == nil && got.good != int64(len(content)) {
			t.Fatalf("%d of %d bytes are good, and no error", got.good, len(content))
		}
		if err != nil && !errors.Is(err, errTorn) && !errors.Is(err, errForeign) {
			t.Fatalf("unexpected error %v", err)
		}
		for name, at := range got.index {
			_, body, err := newFrameReader(bytes.NewReader(content[at.off:])).next()
			if err != nil {
				t.Fatal(err)
			}
			if again, version, err := nameAndVersion(body); err != nil || again != name || version != at.version {
				t.Fatalf("%q@%q became %q@%q, %v", name, at.version, again, version, err)
			}
		}
	})
}

// Of a table that is scrubbed, nothing stays on disk that was replaced or removed, and what is left can be read back.
func TestScrubbedTablesKeepNothingDead(t *testing.T) {
	for _, scrub := range []bool{true, false} {
		dir := t.TempDir()
		s := open(t, dir)
		table := s.Table(clusters)
		if scrub {
			table.Scrub()
		}
		onDisk := func() string {
			text, err := os.ReadFile(logFile(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		table.Put(resource("a", "first-key", 3))
		table.Put(resource("b", "other-key", 3))
		flush(t, s)
		table.Put(resource("a", "second-key", 3))
		flush(t, s)
		if got := strings.Contains(onDisk(), "first-key"); got == scrub {
			t.Errorf("scrubbed %v: what was replaced is on disk: %v", scrub, got)
		}
		table.Remove("b")
		flush(t, s)
		if got := strings.Contains(onDisk(), "other-key"); got == scrub {
			t.Errorf("scrubbed %v: what was removed is on disk: %v", scrub, got)
		}
		if got := contents(t, table); got != "a@second-key" {
			t.Errorf("scrubbed %v: left is %s", scrub, got)
		}
		if got := contents(t, open(t, dir).Table(clusters)); got != "a@second-key" {
			t.Errorf("scrubbed %v: read back is %s", scrub, got)
		}
	}
}
