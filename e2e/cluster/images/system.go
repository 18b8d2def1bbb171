package images

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/e2e/tools"
)

// system is where the files of the operating system come from: this machine, or, for another architecture, the folder
// that e2e/tools/foreign filled with Debian's packages.
type system struct {
	arch string // as Go calls it
	dir  string // "/" for this machine
}

// systemOf finds the system for an architecture.
func systemOf(arch string) (system, error) {
	if arch == runtime.GOARCH {
		return system{arch: arch, dir: "/"}, nil
	}
	cache, err := tools.Cache()
	if err != nil {
		return system{}, err
	}
	dir := filepath.Join(cache, "debian-"+arch)
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		return system{}, fmt.Errorf("there are no libraries for %s in %s: run e2e/tools/foreign %s", arch, dir, arch)
	}
	return system{arch: arch, dir: filepath.Join(dir, "root")}, nil
}

// triplet is the name of the architecture's folders of libraries.
func (s system) triplet() string {
	return map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[s.arch]
}

// machine is what ELF files of the architecture say.
func (s system) machine() elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[s.arch]
}

// libraries are the shared libraries that the dynamic linker would load for the programs, itself included. They are
// found by what the programs say that they need, so that a program of another architecture need not run.
func (s system) libraries(programs ...string) ([]file, error) {
	var files []file
	seen := map[string]bool{}
	for queue := programs; len(queue) > 0; queue = queue[1:] {
		needed, err := s.needs(queue[0])
		if err != nil {
			return nil, err
		}
		for _, name := range needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			library, err := s.library(name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", queue[0], err)
			}
			files, queue = append(files, library), append(queue, library.From)
		}
	}
	return files, nil
}

// needs are the names of libraries, and the path of the linker, that an ELF file names. A static one names none.
func (s system) needs(path string) ([]string, error) {
	program, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = program.Close() }()
	if program.Machine != s.machine() {
		return nil, fmt.Errorf("%s is for %s, not for %s", path, program.Machine, s.arch)
	}
	needed, err := program.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			name := make([]byte, segment.Filesz)
			if _, err := segment.ReadAt(name, 0); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			needed = append(needed, strings.TrimRight(string(name), "\x00"))
		}
	}
	return needed, nil
}

// library finds a library by its name, or by its path.
func (s system) library(name string) (file, error) {
	if filepath.IsAbs(name) {
		return s.file(name)
	}
	for _, dir := range []string{"/usr/lib/" + s.triplet(), "/lib/" + s.triplet(), "/usr/lib64", "/lib64", "/usr/lib", "/lib"} {
		found, err := s.file(filepath.Join(dir, name))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	return file{}, fmt.Errorf("the library %s is not in %s", name, s.dir)
}

// file is a file of the system, by the path that it has there, at the place where it really is: base has the same
// links of directories.
func (s system) file(path string) (file, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join(s.dir, filepath.Dir(path)))
	if err != nil {
		return file{}, err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(s.dir, path))
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return file{}, err
	}
	if dir, err = filepath.Rel(s.dir, dir); err != nil {
		return file{}, err
	}
	return file{Path: filepath.Join("/", dir, filepath.Base(path)), From: real, Mode: int64(info.Mode().Perm())}, nil
}

// iptables are the tools that set up a pod's redirection, with their extensions.
func (s system) iptables() ([]file, error) {
	const multi = "/usr/sbin/xtables-nft-multi"
	program, err := s.file(multi)
	if err != nil {
		return nil, fmt.Errorf("%w: run `make tools` as root", err)
	}
	files := []file{program}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, tool := range []string{"", "-save", "-restore"} {
			for _, variant := range []string{"", "-nft"} {
				files = append(files, file{Path: "/usr/sbin/" + family + variant + tool, Link: filepath.Base(multi)})
			}
		}
	}
	extensions, err := filepath.Glob(filepath.Join(s.dir, "usr/lib", s.triplet(), "xtables", "*.so"))
	if err != nil {
		return nil, err
	}
	programs := []string{program.From}
	for _, path := range extensions {
		extension, err := s.file(strings.TrimPrefix(path, strings.TrimSuffix(s.dir, "/")))
		if err != nil {
			return nil, err
		}
		files, programs = append(files, extension), append(programs, extension.From)
	}
	libraries, err := s.libraries(programs...)
	return append(files, libraries...), err
}

// programs are programs of this machine, found on the PATH, and the shared libraries they need.
func (s system) programs(names ...string) ([]file, error) {
	var files []file
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("%s is not on this machine: run `make cluster-tools` as root", name)
		}
		program, err := s.file(path)
		if err != nil {
			return nil, err
		}
		libraries, err := s.libraries(program.From)
		if err != nil {
			return nil, err
		}
		files = append(append(files, program), libraries...)
	}
	return files, nil
}

// debian is a package of the distribution.
type debian struct{ name, version, arch string }

// owners names the packages that files of the system belong to, by the files' paths on this machine. A machine without
// dpkg says of none.
func (s system) owners(ctx context.Context, paths []string) (map[string]debian, error) {
	if s.dir != "/" {
		return s.unpacked(paths)
	}
	dpkg, err := exec.LookPath("dpkg-query")
	if err != nil || len(paths) == 0 {
		return nil, nil //nolint:nilerr // another distribution
	}
	var asked []string
	for _, path := range paths {
		asked = append(asked, path)
		if rest, merged := strings.CutPrefix(path, "/usr"); merged {
			asked = append(asked, rest) // dpkg knows files where the package has them
		}
	}
	out, _ := exec.CommandContext(ctx, dpkg, append([]string{"--search"}, asked...)...).Output() // fails for each that nobody owns
	versions, err := exec.CommandContext(ctx, dpkg, "--show", "--showformat", "${binary:Package} ${Package} ${Version} ${Architecture}\n").Output()
	if err != nil {
		return nil, fmt.Errorf("dpkg-query --show: %w", err)
	}
	installed := map[string]debian{}
	for line := range strings.Lines(string(versions)) {
		if f := strings.Fields(line); len(f) == 4 {
			installed[f[0]] = debian{f[1], f[2], f[3]}
		}
	}
	found := map[string]debian{}
	for line := range strings.Lines(string(out)) { // "libc6:amd64: /lib/x86_64-linux-gnu/libm.so.6"
		owner, path, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.Contains(owner, ", ") {
			continue
		}
		for _, p := range []string{path, "/usr" + path} {
			if d, known := installed[owner]; known && slices.Contains(paths, p) {
				found[p] = d
			}
		}
	}
	return found, nil
}

// unpacked reads what e2e/tools/foreign noted: for each package "NAME VERSION ARCHITECTURE", then its files.
func (s system) unpacked(paths []string) (map[string]debian, error) {
	lists, err := filepath.Glob(filepath.Join(filepath.Dir(s.dir), "packages", "*"))
	if err != nil {
		return nil, err
	}
	found := map[string]debian{}
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		head, files, _ := strings.Cut(string(content), "\n")
		f := strings.Fields(head)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %q is no package", list, head)
		}
		for path := range strings.Lines(files) {
			path = strings.TrimPrefix(strings.TrimSpace(path), ".")
			for _, p := range []string{path, "/usr" + path} {
				if real := filepath.Join(s.dir, p); slices.Contains(paths, real) {
					found[real] = debian{f[0], f[1], f[2]}
				}
			}
		}
	}
	return found, nil
}
