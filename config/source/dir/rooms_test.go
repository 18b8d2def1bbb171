package dir

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
)

// TestManyFilesAreReadAsOne: what stays of many files is moved together, and is the same as of files that come one by one, also when they change, and go.
func TestManyFilesAreReadAsOne(t *testing.T) {
	root := t.TempDir()
	var files []string
	put := func(name, text string) {
		files = append(files, filepath.Join(root, name))
		write(t, files[len(files)-1], text)
	}
	for i := range 3 * roomFor {
		name, host := fmt.Sprintf("e%d", i), fmt.Sprintf("h%d.example.com", i)
		switch i % 5 {
		case 0:
			put("sub/"+name+".yaml", "# a comment\n---\n"+entry(name, host))
		case 1:
			put(name+".yaml", entry(name, host)+entry("second-"+name, "B."+host))
		case 2:
			put(name+".yaml", strings.Replace(entry(name, host), "hosts: [", "endpoints: [{address: 192.0.2.1, labels: {a: b}}]\n  addresses: [192.0.2.7]\n  exportTo: [.]\n  hosts: [more."+host+", ", 1))
		case 3:
			put(name+".yaml", entry("e1", host)) // another file's version of an object, which is hidden
		default:
			put(name+".yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {a: %q}}\n", name, host))
		}
	}
	watcher, err := fsnotify.NewWatcher()
	must(t, err)
	defer func() { _ = watcher.Close() }()
	many, one := newTree(root, watcher, slog.New(slog.DiscardHandler)), newTree(root, watcher, slog.New(slog.DiscardHandler))
	got, want := map[config.Key]*config.Object{}, map[config.Key]*config.Object{}
	move := func() {
		t.Helper()
		take := func(into map[config.Key]*config.Object, tree *tree, paths ...string) {
			changes, _ := tree.update(paths)
			for _, c := range changes {
				if into[c.Key] = c.Object; c.Object == nil {
					delete(into, c.Key)
				}
			}
		}
		take(got, many, root)
		for _, f := range files {
			take(want, one, f)
		}
		if len(got) < roomFor || len(got) != len(want) {
			t.Fatalf("%d objects of many files, %d of single ones", len(got), len(want))
		}
		for key, w := range want {
			if g := got[key]; g == nil || !alike(g, w) {
				t.Fatalf("of many files %v is\n%+v\nand of one\n%+v", key, g, w)
			}
		}
		if a, b := slices.Sorted(maps.Keys(many.store.files)), slices.Sorted(maps.Keys(one.store.files)); !slices.Equal(a, b) {
			t.Fatalf("many files are known as %q, single ones as %q", a, b)
		}
	}
	move()
	for i, f := range files {
		switch i % 3 {
		case 0:
			must(t, os.Remove(f))
		case 1:
			write(t, f, entry(fmt.Sprintf("other%d", i), "other.example.com"))
		}
	}
	move()
}

// alike says whether two objects say the same, and are found at the same place.
func alike(a, b *config.Object) bool {
	x, y := *a, *b
	if e, is := x.Spec.(*networking.ServiceEntry); is && !proto.Equal(e, y.Spec.(*networking.ServiceEntry)) {
		return false
	}
	if decode.Hash(a) != decode.Hash(b) {
		return false
	}
	x.Spec, y.Spec = nil, nil
	return reflect.DeepEqual(x, y)
}
