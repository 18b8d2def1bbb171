package images

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/tools"
)

// component is a part of an image, of which somebody may want to know the version.
type component struct {
	name, version string
	purl          string // the package URL that scanners match; "" for none
	sha256        string // of the program's file, or of the module as go.sum has it, in hex; "" if it is not known
	in            string // the path of the program that a module is linked into; "" for what is a file of its own
	path          string // of a program
}

// components finds out what an image's files are: Go programs tell of their modules, Envoy's version is pinned, the rest
// is the distribution's.
func (b *builder) components(ctx context.Context, files []file) ([]component, error) {
	var found []component
	var rest []string
	for _, f := range files {
		switch {
		case f.From == "":
		case f.Path == envoyPath:
			sum, err := sumOf(f.From)
			if err != nil {
				return nil, err
			}
			version := tools.Version("ENVOY")
			found = append(found, component{name: "envoy", version: version, purl: "pkg:github/envoyproxy/envoy@v" + version, sha256: sum, path: f.Path})
		default:
			info, err := buildinfo.ReadFile(f.From)
			if err != nil { // no Go program
				rest = append(rest, f.From)
				continue
			}
			program, err := b.program(f, info)
			if err != nil {
				return nil, err
			}
			found = append(found, program...)
		}
	}
	packages, err := b.packages(ctx, rest)
	if err != nil {
		return nil, err
	}
	found = append(found, packages...)
	slices.SortFunc(found, func(x, y component) int {
		return cmp.Or(cmp.Compare(x.in, y.in), cmp.Compare(x.name, y.name), cmp.Compare(x.version, y.version))
	})
	return slices.Compact(found), nil
}

// program is a Go program of ours, the standard library and the modules that are linked into it.
func (b *builder) program(f file, info *debug.BuildInfo) ([]component, error) {
	sum, err := sumOf(f.From)
	if err != nil {
		return nil, err
	}
	found := []component{
		{name: info.Path, version: b.origin.version, sha256: sum, path: f.Path},
		{name: "stdlib", version: strings.TrimPrefix(info.GoVersion, "go"), purl: "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go"), in: f.Path},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{name: m.Path, version: m.Version, purl: "pkg:golang/" + strings.ToLower(m.Path) + "@" + m.Version, in: f.Path}
		if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
			raw, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return nil, fmt.Errorf("%s: the sum of %s: %w", f.Path, m.Path, err)
			}
			c.sha256 = hex.EncodeToString(raw)
		}
		found = append(found, c)
	}
	return found, nil
}

// packages are those that files of the system belong to. A file that nobody owns is a component by itself: it is said
// to be there, without a version.
func (b *builder) packages(ctx context.Context, paths []string) ([]component, error) {
	owners, err := b.system.owners(ctx, paths)
	if err != nil {
		return nil, err
	}
	var found []component
	for _, path := range paths {
		d, known := owners[path]
		switch {
		case known:
			found = append(found, component{name: d.name, version: d.version, purl: fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", d.name, strings.ReplaceAll(d.version, "+", "%2B"), d.arch)})
		case path == caBundle: // made on the machine, of the package's certificates
			found = append(found, component{name: "ca-certificates"})
		default:
			sum, err := sumOf(path)
			if err != nil {
				return nil, err
			}
			found = append(found, component{name: path, sha256: sum})
		}
	}
	return found, nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// The parts of an SPDX 2.3 document that are used here: https://spdx.github.io/spdx-spec/v2.3/.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"name"`
		Version   string         `json:"versionInfo,omitempty"`
		File      string         `json:"packageFileName,omitempty"`
		Location  string         `json:"downloadLocation"`
		Analyzed  bool           `json:"filesAnalyzed"`
		Checksums []spdxChecksum `json:"checksums,omitempty"`
		Concluded string         `json:"licenseConcluded"`
		Declared  string         `json:"licenseDeclared"`
		Copyright string         `json:"copyrightText"`
		Refs      []spdxRef      `json:"externalRefs,omitempty"`
		Purpose   string         `json:"primaryPackagePurpose,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const unsaid = "NOASSERTION"

// bill is the SBOM of an image, as SPDX in JSON: the same for the same image.
func (b *builder) bill(ctx context.Context, i Image) ([]byte, error) {
	parts, err := b.components(ctx, i.files)
	if err != nil {
		return nil, err
	}
	const image = "SPDXRef-image"
	doc := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: i.Name,
		Namespace: "https://spdx.org/spdxdocs/" + i.Name + "-" + strings.TrimPrefix(i.Digest, "sha256:"),
		Creation:  spdxCreation{Created: b.origin.at.Format(time.RFC3339), Creators: []string{"Tool: sallyport-images"}},
		Packages: []spdxPackage{{
			ID: image, Name: i.Name, Version: b.origin.version, Purpose: "CONTAINER", Location: unsaid, Concluded: unsaid,
			Declared: "Apache-2.0", Copyright: unsaid, Checksums: []spdxChecksum{{"SHA256", strings.TrimPrefix(i.Digest, "sha256:")}},
		}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", image}},
	}
	programs := map[string]string{} // path → id
	for n, c := range parts {       // programs come first: they are in nothing
		id := fmt.Sprintf("SPDXRef-%d", n+1)
		doc.Packages = append(doc.Packages, c.spdx(id))
		link := spdxRelationship{image, "CONTAINS", id}
		if c.in != "" {
			link = spdxRelationship{programs[c.in], "DEPENDS_ON", id}
		} else if c.path != "" {
			programs[c.path] = id
		}
		doc.Relationships = append(doc.Relationships, link)
	}
	return json.MarshalIndent(doc, "", "  ")
}

func (c component) spdx(id string) spdxPackage {
	p := spdxPackage{
		ID: id, Name: c.name, Version: c.version, File: c.path, Location: unsaid, Concluded: unsaid, Declared: unsaid, Copyright: unsaid,
	}
	if c.sha256 != "" {
		p.Checksums = []spdxChecksum{{"SHA256", c.sha256}}
	}
	if c.purl != "" {
		p.Refs = []spdxRef{{"PACKAGE-MANAGER", "purl", c.purl}}
	}
	if c.path != "" {
		p.Purpose = "APPLICATION"
	}
	return p
}
