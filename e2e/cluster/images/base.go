package images

import "os"

// ProxyUID is the user that proxies run under.
const ProxyUID = 1337

// Users that images run under by themselves; they are the chart's, too. The init step of a pod, which needs rights, is given
// root by who makes the pod.
const (
	proxyUser  = "1337:1337"
	serverUser = "65532:65532"
	rootUser   = "0:0"
)

// caBundle is where Debian and most others keep the system's trust roots.
const caBundle = "/etc/ssl/certs/ca-certificates.crt"

// base is what every image has: users, places to write, trust roots, and the merged /usr that the host's paths expect.
func base() []file {
	files := []file{
		{Path: "/bin", Link: "usr/bin"}, {Path: "/sbin", Link: "usr/sbin"},
		{Path: "/lib", Link: "usr/lib"}, {Path: "/lib64", Link: "usr/lib64"},
		{Path: "/usr/bin/", Mode: 0o755}, {Path: "/usr/sbin/", Mode: 0o755},
		{Path: "/usr/lib/", Mode: 0o755}, {Path: "/usr/lib64/", Mode: 0o755},
		{Path: "/tmp/", Mode: 0o1777}, {Path: "/run/", Mode: 0o755},
		{Path: "/var/", Mode: 0o755}, {Path: "/var/run", Link: "../run"}, {Path: "/home/", Mode: 0o755},
		{Path: "/home/sallyport/", Mode: 0o755, UID: ProxyUID},
		{Path: "/etc/passwd", Mode: 0o644, Content: "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nsallyport:x:1337:1337:sallyport:/home/sallyport:/bin/false\nserver:x:65532:65532:server:/:/bin/false\n"},
		{Path: "/etc/group", Mode: 0o644, Content: "root:x:0:\nnogroup:x:65534:\nsallyport:x:1337:\nserver:x:65532:\n"},
		{Path: "/etc/nsswitch.conf", Mode: 0o644, Content: "passwd: files\ngroup: files\nhosts: files dns\n"},
	}
	if _, err := os.Stat(caBundle); err == nil {
		files = append(files, file{Path: caBundle, Mode: 0o644, From: caBundle})
	}
	return files
}
