package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// fromHost are programs of this machine, found on the PATH, and the shared libraries they need.
func fromHost(ctx context.Context, names ...string) ([]file, error) {
	var files []file
	for _, name := range names {
		path, err := look(name)
		if err != nil {
			return nil, err
		}
		program, err := copied(path)
		if err != nil {
			return nil, err
		}
		libraries, err := librariesOf(ctx, path)
		if err != nil {
			return nil, err
		}
		files = append(append(files, program), libraries...)
	}
	return files, nil
}

// look finds a program where root would, even if our PATH is a plain user's.
func look(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not on this machine: run `make cluster-tools` as root", name)
}

// librariesOf are the shared libraries that the dynamic linker would load for the program, itself included.
func librariesOf(ctx context.Context, program string) ([]file, error) {
	out, err := exec.CommandContext(ctx, "ldd", program).CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "not a dynamic executable") {
			return nil, nil
		}
		return nil, fmt.Errorf("ldd %s: %w: %s", program, err, out)
	}
	var files []file
	for line := range strings.Lines(string(out)) {
		// "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x…)", or the linker's path alone.
		i := slices.IndexFunc(strings.Fields(line), filepath.IsAbs)
		if i < 0 {
			continue
		}
		library, err := copied(strings.Fields(line)[i])
		if err != nil {
			return nil, err
		}
		files = append(files, library)
	}
	return files, nil
}

// copied is a file of this machine at the place where it is, links followed: base has the same links of directories.
func copied(path string) (file, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return file{}, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return file{}, err
	}
	return file{Path: filepath.Join(dir, filepath.Base(path)), From: real, Mode: int64(info.Mode().Perm())}, nil
}

// iptables are the tools that set up a pod's redirection, with their extensions.
func iptables(ctx context.Context) ([]file, error) {
	files, err := fromHost(ctx, "xtables-nft-multi", "ip")
	if err != nil {
		return nil, err
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, tool := range []string{"", "-save", "-restore"} {
			for _, variant := range []string{"", "-nft"} {
				files = append(files, file{Path: "/usr/sbin/" + family + variant + tool, Link: "xtables-nft-multi"})
			}
		}
	}
	extensions, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	if err != nil {
		return nil, err
	}
	for _, path := range extensions {
		extension, err := copied(path)
		if err != nil {
			return nil, err
		}
		files = append(files, extension)
	}
	return files, nil
}
