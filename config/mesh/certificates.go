package mesh

import (
	"path"
	"slices"
	"strings"
)

// CertificateFolders is the sallyport.certificateFolders block: below which folders of a proxy's file system
// DestinationRules may name certificates, keys and roots by their path; "" for nowhere. A gateway's folder has one below
// it for each namespace, whose rules may name the files in there, and no others; rules of the root namespace may name
// all of them. At a sidecar only rules of the pod's own namespace, and of the root namespace, may name files.
type CertificateFolders struct {
	Gateway, Sidecar string
}

// certificateFolders reads the block.
func (b *block) certificateFolders(tree any) CertificateFolders {
	const at = "sallyport.certificateFolders"
	in := b.fields(at, tree, "gateway", "sidecar")
	return CertificateFolders{Gateway: b.folder(at+".gateway", in["gateway"]), Sidecar: b.folder(at+".sidecar", in["sidecar"])}
}

func (b *block) folder(at string, v any) string {
	s := b.text(at, v)
	if s != "" && (!path.IsAbs(s) || path.Clean(s) != s || s == "/") {
		b.add(at, s, "is no folder's absolute path", `write it as in "/etc/sallyport/certificates"; it must hold nothing but such files`)
		return ""
	}
	return s
}

// Below says whether a path is that of something below the folder, written without detours: no "..", no ".", no hidden
// names. What is behind a symbolic link in the folder is up to whoever made the folder.
func Below(folder, file string) bool {
	rest, ok := strings.CutPrefix(file, folder+"/")
	if folder == "" || !ok || path.Clean(file) != file {
		return false
	}
	return !slices.ContainsFunc(strings.Split(rest, "/"), func(part string) bool {
		return part == "" || part[0] == '.' || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f })
	})
}
