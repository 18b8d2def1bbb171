package load

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/xds/compress"
)

func TestMain(m *testing.M) {
	leaks.Verify(m, goleak.IgnoreTopFunction("github.com/sallyport/sallyport/e2e/world.startForever"))
}

// program is the built one.
func program(t *testing.T) string {
	t.Helper()
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "bin", "sallyport")
	if dir := os.Getenv("SALLYPORT_BIN"); dir != "" {
		program = filepath.Join(dir, "sallyport")
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%v: run `make build`", err)
	}
	return program
}

// TestMeasure measures a small mesh.
func TestMeasure(t *testing.T) {
	f, err := Measure(t.Context(), Options{Sallyport: program(t), Entries: 20, Private: 20, Streams: 5, Crowd: 10, Changes: 6})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"added", "changed", "removed"} {
		if n := f.Bytes[kind]; n < 50 || n > 8<<10 {
			t.Errorf("%s: %d bytes", kind, n)
		}
	}
	if f.Start == 0 || f.SyncBytes == 0 || f.Resident == 0 || f.CrowdResident == 0 || f.P50 == 0 || f.P99 < f.P50 || f.GatewayBytes == 0 {
		t.Errorf("figures are missing: %+v", f)
	}
	doc := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(doc, []byte("before\n"+kept("figures").begin+"old"+kept("figures").end+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Keep(doc, []Figures{f}, 1); err != nil {
		t.Fatal(err)
	}
	text := read(doc)
	if !strings.HasPrefix(text, "before\n") || !strings.HasSuffix(text, "\nafter\n") || strings.Contains(text, "old") || !strings.Contains(text, "| 20 entries") {
		t.Errorf("the document is\n%s", text)
	}
}

// TestMeasureShapes measures small meshes of the other shapes.
func TestMeasureShapes(t *testing.T) {
	for shape, kinds := range map[string][]string{
		ShapeEndpoints: {"changed"}, ShapeRoutes: {"added", "changed", "removed"}, ShapeFetched: {"added", "in use", "not in use", "removed"}, ShapePolicies: {"changed"},
		ShapeAuthorization: {"changed"}, ShapeCertificates: {"added", "changed", "removed"}, ShapeServers: {"added", "changed", "removed"},
	} {
		f, err := Measure(t.Context(), Options{Sallyport: program(t), Shape: shape, Entries: 20, Streams: 3, Changes: 6})
		if err != nil {
			t.Fatal(err)
		}
		if shape == ShapeAuthorization && (f.Told != 1 || f.Meant != 1) {
			t.Errorf("of an AuthorizationPolicy that selects %d sidecars %d proxies are told", f.Meant, f.Told)
		}
		what := "proxy"
		if shape == ShapeFetched {
			what = "sidecar"
		}
		for _, kind := range kinds {
			if n := f.Bytes[kind]; n < 50 || n > 8<<10 {
				t.Errorf("%s %s: %d bytes", shape, kind, n)
			}
		}
		if len(f.Bytes) != len(kinds) || f.P50 == 0 || f.P99 < f.P50 {
			t.Errorf("%s: figures are missing: %+v", shape, f)
		}
		if text := Table([]Figures{f}); strings.Contains(text, "ServiceEntry") || !strings.Contains(text, "| bytes to a "+what+" for ") {
			t.Errorf("%s: %s", shape, text)
		}
	}
	if _, err := Measure(t.Context(), Options{Shape: "none"}); err == nil {
		t.Error("a shape that is none is measured")
	}
}

// TestDecode reads a response as protobuf writes it, in one buffer and in tiny ones.
func TestDecode(t *testing.T) {
	body, err := anypb.New(&discovery.Resource{Name: "inner"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(&discovery.DeltaDiscoveryResponse{
		SystemVersionInfo: "s", TypeUrl: clusterType, Nonce: "7", RemovedResources: []string{"gone", "lost"},
		Resources: []*discovery.Resource{{Name: "a", Version: "1", Resource: body}, {Name: "b", Version: "2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 3, len(raw)} {
		var data mem.BufferSlice
		for rest := raw; len(rest) > 0; {
			n := min(size, len(rest))
			data, rest = append(data, mem.SliceBuffer(rest[:n])), rest[n:]
		}
		var r response
		if err := (rawCodec{}).Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		if r.typeURL != clusterType || r.nonce != "7" || len(r.removed) != 2 || len(r.resources) != 2 || r.size != len(raw) {
			t.Errorf("in pieces of %d: %+v", size, r)
		}
		if a := r.resources[0]; a.name != "a" || a.version != "1" || string(a.body) != string(body.GetValue()) {
			t.Errorf("in pieces of %d: %+v", size, a)
		}
	}
	if err := (rawCodec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw[:len(raw)-3])}, &response{}); err == nil {
		t.Error("a truncated response is read")
	}
}

// TestSkims finds the envelope of a large response that is compressed, among frames with all kinds of blocks.
func TestSkims(t *testing.T) {
	chance := rand.NewChaCha8([32]byte{1})
	random := make([]byte, 300<<10)
	_, _ = chance.Read(random)
	want := []byte("the envelope")
	frames := [][]byte{random, make([]byte, 500<<10), bytes.Repeat([]byte("rows are alike; "), 40<<10), {}, want}
	data, size := mem.BufferSlice{}, 0
	for _, f := range frames {
		data, size = append(data, mem.SliceBuffer(compress.Frame(slices.Values([][]byte{f})))), size+len(f)
	}
	data = append(mem.BufferSlice{mem.SliceBuffer(compress.Head(size))}, data...)
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := d.DecodeAll(envelopeOf(data).Materialize(), nil)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for _, plain := range []mem.BufferSlice{{mem.SliceBuffer(random)}, {mem.SliceBuffer(data.Materialize()[:150<<10])}} {
		if got := envelopeOf(plain); got.Len() != plain.Len() {
			t.Errorf("what is no compressed response, or is cut off, becomes %d bytes", got.Len())
		}
	}
}

func TestMedian(t *testing.T) {
	got := Median([]Figures{
		{Entries: 5, P50: 3, Bytes: map[string]int64{"added": 9}},
		{Entries: 5, P50: 1, Bytes: map[string]int64{"added": 7}},
		{Entries: 5, P50: 2, Bytes: map[string]int64{"added": 8}},
	})
	if got.Entries != 5 || got.P50 != 2 || got.Bytes["added"] != 8 {
		t.Errorf("%+v", got)
	}
}
