// Package tools says where the pinned programs are that the scripts beside it leave in the user's cache. It builds and
// fetches nothing itself: `make tools` and `make cluster-tools` do.
package tools

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed versions.env
var versions string

// Version is what versions.env pins for the variable NAME_VERSION, such as "ENVOY". It panics when there is no such
// line: names are constants of this repository.
func Version(name string) string {
	for line := range strings.Lines(versions) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), name+"_VERSION="); ok {
			return version
		}
	}
	panic("versions.env has no line " + name + "_VERSION=")
}

// Cache is the directory that holds what was fetched and built, for every checkout of this user.
func Cache() (string, error) {
	base, err := os.UserCacheDir() // $XDG_CACHE_HOME, or ~/.cache
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "sallyport"), nil
}

// Cached is the path of a program that the scripts leave in the cache, such as ("kubernetes", "kubelet"). The error
// says what to run when it is missing.
func Cached(tool, program string) (string, error) {
	return cached(tool+"-"+Version(strings.ToUpper(tool)), program, "`make "+target(tool)+"`")
}

// CachedFor is Cached for another architecture than this machine's; see the script foreign.
func CachedFor(arch, tool, program string) (string, error) {
	return cached(tool+"-"+Version(strings.ToUpper(tool))+"-"+arch, program, "e2e/tools/foreign "+arch)
}

func cached(dir, program, run string) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, dir, program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing: run %s", path, run)
	}
	return path, nil
}

func target(tool string) string {
	switch tool {
	case "envoy", "axe", "iceberg":
		return "tools"
	case "spark", "icebergspark", "kafka":
		return "test-long"
	}
	return "cluster-tools"
}
