package images

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sallyport/sallyport/e2e/tools"
)

// TestShip: what is written for users is what the test cluster runs, twice the same, and says what is in it.
func TestShip(t *testing.T) {
	tested := build(t, Shipped...) // by what LoadImages calls
	archs := []string{runtime.GOARCH}
	first, err := Ship(t.Context(), t.TempDir(), archs)
	if errors.Is(err, ErrStale) {
		t.Skip(err) // `make test` builds first
	}
	if err != nil {
		t.Fatal(err)
	}
	second, err := Ship(t.Context(), t.TempDir(), archs)
	if err != nil {
		t.Fatal(err)
	}
	for n, w := range first {
		if w.Digest != second[n].Digest || !bytes.Equal(content(t, w.Archive), content(t, second[n].Archive)) {
			t.Errorf("%s: written twice, and not the same: %s, %s", w.Ref, w.Digest, second[n].Digest)
		}
		if w.Images[0].Digest != tested[n].Digest {
			t.Errorf("%s: shipped is %s, tested is %s", w.Ref, w.Images[0].Digest, tested[n].Digest)
		}
		files := untar(t, bytes.NewReader(content(t, w.Archive)))
		index := parseIndex(t, files["index.json"])
		if len(index.Manifests) != 1 || index.Manifests[0].Annotations[refAnnotation] != w.Ref || index.Manifests[0].Digest.String() != w.Digest {
			t.Fatalf("%s: the archive is about %+v", w.Ref, index.Manifests)
		}
		inner := parseIndex(t, blob(t, files, index.Manifests[0].Digest))
		if len(inner.Manifests) != 2 {
			t.Fatalf("%s: %d manifests, want an image and its attestation", w.Ref, len(inner.Manifests))
		}
		image, attestation := inner.Manifests[0], inner.Manifests[1]
		if image.Digest.String() != w.Images[0].Digest || image.Platform.Architecture != runtime.GOARCH {
			t.Errorf("%s: %+v", w.Ref, image)
		}
		holdConfig(t, files, image, w.Ref)
		holdAttestation(t, files, attestation, image.Digest.String(), content(t, strings.TrimSuffix(w.Archive, ".tar")+".linux-"+runtime.GOARCH+".spdx.json"))
	}
}

// TestChartAsksForThem: the chart of a version names the images of that version.
func TestChartAsksForThem(t *testing.T) {
	helm, err := tools.Cached("helm", "helm")
	if err != nil {
		t.Skip(err)
	}
	for _, version := range []string{"v1.2.3", "v1.2.3-4-g0123abc-dirty", "0123abc", "e2e"} {
		dir := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), "../../../chart/package", version, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
		if err != nil || len(packed) != 1 {
			t.Fatalf("%v: %v", packed, err)
		}
		out, err := exec.CommandContext(t.Context(), helm, "template", "sallyport", packed[0], "--kube-version", tools.Version("KUBERNETES"), "--set", "nodeGuard.enabled=true,audit.lake.url=s3://logs,audit.lake.iceberg.enabled=true,audit.lake.iceberg.catalog=https://catalog.test").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var want []string
		for _, name := range Shipped {
			want = append(want, name+":"+tagOf(version))
		}
		for _, m := range regexp.MustCompile(`"?image"?: "?([^\s",]+)`).FindAllStringSubmatch(string(out), -1) {
			if !slices.Contains(want, m[1]) {
				t.Errorf("the chart of %s asks for %s; there are %v", version, m[1], want)
			}
		}
		for _, ref := range want {
			if !strings.Contains(string(out), ref) {
				t.Errorf("the chart of %s does not ask for %s", version, ref)
			}
		}
	}
}

// holdConfig: no user but the one who must, labels, and no time but the commit's.
func holdConfig(t *testing.T, files map[string][]byte, image v1.Descriptor, ref string) {
	t.Helper()
	manifest, err := v1.ParseManifest(bytes.NewReader(blob(t, files, image.Digest)))
	if err != nil {
		t.Fatal(err)
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(blob(t, files, manifest.Config.Digest)))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(ref, ":")
	if want := map[string]string{Controller: serverUser, Proxy: proxyUser, Node: rootUser, Iceberg: serverUser}[name]; config.Config.User != want {
		t.Errorf("%s runs as %q, want %q", ref, config.Config.User, want)
	}
	root, err := Checkout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := originOf(t.Context(), root)
	for label, want := range map[string]string{"version": o.version, "revision": o.revision} {
		if got := config.Config.Labels["org.opencontainers.image."+label]; got != want || got == "" {
			t.Errorf("%s: label %s is %q, want %q", ref, label, got, want)
		}
	}
	if !config.Created.Time.Equal(o.at) {
		t.Errorf("%s was made at %s, want the commit's time %s", ref, config.Created, o.at)
	}
}

// holdAttestation: the statement is about the image, and its SBOM is the file's.
func holdAttestation(t *testing.T, files map[string][]byte, d v1.Descriptor, image string, file []byte) {
	t.Helper()
	if d.Platform.OS != "unknown" || d.Annotations["vnd.docker.reference.type"] != "attestation-manifest" || d.Annotations["vnd.docker.reference.digest"] != image {
		t.Errorf("attestation: %+v", d)
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(blob(t, files, d.Digest)))
	if err != nil {
		t.Fatal(err)
	}
	var statement struct {
		Type      string `json:"predicateType"`
		Subject   []struct{ Digest map[string]string }
		Predicate json.RawMessage
	}
	if err := json.Unmarshal(blob(t, files, manifest.Layers[0].Digest), &statement); err != nil {
		t.Fatal(err)
	}
	if statement.Type != spdxType || "sha256:"+statement.Subject[0].Digest["sha256"] != image {
		t.Errorf("the statement is about %+v", statement.Subject)
	}
	if !bytes.Equal(compact(t, statement.Predicate), compact(t, file)) {
		t.Error("the attestation's SBOM is not the file's")
	}
	holdBill(t, file)
}

// holdBill: an SPDX document whose parts are all related to something, and known by version where they can be.
func holdBill(t *testing.T, file []byte) {
	t.Helper()
	var doc spdxDocument
	if err := json.Unmarshal(file, &doc); err != nil {
		t.Fatal(err)
	}
	has := map[string]spdxPackage{}
	ids := map[string]bool{doc.ID: true}
	for _, p := range doc.Packages {
		if ids[p.ID] {
			t.Errorf("%s: two packages have the id %s", doc.Name, p.ID)
		}
		ids[p.ID], has[p.Name] = true, p
	}
	related := map[string]bool{}
	for _, r := range doc.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%s: a relationship of what is not there: %+v", doc.Name, r)
		}
		related[r.To] = true
	}
	for _, p := range doc.Packages {
		if !related[p.ID] {
			t.Errorf("%s: %s is related to nothing", doc.Name, p.Name)
		}
	}
	if doc.Version != "SPDX-2.3" || has["stdlib"].Version == "" || has["golang.org/x/sys"].Version == "" {
		t.Errorf("%s: the SBOM lacks what Go programs are made of", doc.Name)
	}
	switch doc.Name {
	case Proxy:
		if has["envoy"].Version != tools.Version("ENVOY") {
			t.Errorf("Envoy in the SBOM: %+v", has["envoy"])
		}
	case Controller:
		if has["github.com/duckdb/duckdb-go/v2"].Version == "" {
			t.Error("the SBOM lacks DuckDB")
		}
	}
}

// TestProgramsNameNoPlace: where they were built does not change their bytes.
func TestProgramsNameNoPlace(t *testing.T) {
	root, err := Checkout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range build(t, Shipped...) {
		for _, f := range i.files {
			if strings.HasPrefix(f.From, root) && bytes.Contains(content(t, f.From), []byte(root+"/")) {
				t.Errorf("%s: %s names the folder that it was built in", i.Name, f.Path)
			}
		}
	}
}

// TestStale: an image does not say another version than its program.
func TestStale(t *testing.T) {
	root := t.TempDir()
	program := filepath.Join(root, "bin", "sallyport-node")
	if err := errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, []byte("…v1.2.3…"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]error{"v1.2.3": nil, "v1.2.4": ErrStale} {
		b := &builder{root: root, origin: origin{version: version}}
		err := b.current(Image{files: []file{{Path: "/etc/passwd", Content: "x"}, {Path: "/usr/local/bin/sallyport-node", From: program}}})
		if !errors.Is(err, want) {
			t.Errorf("image of %s: %v, want %v", version, err, want)
		}
	}
}

// TestLibraries: what is found without running a program is what the linker of this machine would load.
func TestLibraries(t *testing.T) {
	here, err := systemOf(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	shell, err := here.programs("sh")
	if err != nil {
		t.Fatal(err)
	}
	linker := slices.ContainsFunc(shell, func(f file) bool { return strings.Contains(f.Path, "ld-linux") })
	libc := slices.ContainsFunc(shell, func(f file) bool { return strings.HasSuffix(f.Path, "/libc.so.6") })
	if !linker || !libc {
		t.Errorf("libraries of a shell: %+v", shell)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	if _, err := (system{arch: other, dir: "/"}).libraries(shell[0].From); err == nil {
		t.Error("a program of another architecture was taken")
	}
}

// TestForeign assembles the images of another architecture, if its programs are there.
func TestForeign(t *testing.T) {
	const arch = "arm64"
	if runtime.GOARCH == arch {
		t.Skip("that is this machine's own")
	}
	if _, err := systemOf(arch); err != nil {
		t.Skip(err)
	}
	built, err := BuildFor(t.Context(), arch, Shipped...)
	if errors.Is(err, ErrNotBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range built {
		config, err := i.image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch {
			t.Errorf("%s is for %s", i.Name, config.Architecture)
		}
		for _, f := range i.files {
			if program, err := elf.Open(f.From); err == nil {
				if program.Machine != elf.EM_AARCH64 {
					t.Errorf("%s: %s is for %s", i.Name, f.Path, program.Machine)
				}
				_ = program.Close()
			}
		}
	}
}

func TestTag(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-4-gabc": "1.2.3-4-gabc", "313b3cd-dirty": "313b3cd-dirty", "unknown": "unknown"} {
		if got := tagOf(version); got != want {
			t.Errorf("tag of %s: %s, want %s", version, got, want)
		}
	}
}

func parseIndex(t *testing.T, raw []byte) *v1.IndexManifest {
	t.Helper()
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func compact(t *testing.T, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
