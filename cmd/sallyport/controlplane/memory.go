package controlplane

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// giveMemoryBack returns what bursts have left behind to the kernel: garbage, also what pools hold, which outlives one
// collection, and the stacks that grew, which shrink by half in each; and the pages of the program that were needed for
// a moment, mostly while it started.
func giveMemoryBack() {
	runtime.GC()
	debug.FreeOSMemory()
	if pages, err := programPages(); err == nil {
		for _, p := range pages {
			p.release()
		}
	}
}

// span is a range of this process's addresses.
type span struct{ begin, end uint64 }

// release has the kernel forget that the pages are the process's. They stay in its cache of files for as long as it has room, and
// what is used is there again when it is used.
func (s span) release() {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(s.begin), uintptr(s.end-s.begin), unix.MADV_DONTNEED)
}

// programPages are where the program's code and constants are mapped, which nobody ever writes to: what is given back of these is what is
// in the file. (What the loader has written to and protected then is no part of them.) They stay where they are.
var programPages = sync.OnceValues(func() ([]span, error) {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer func() { _ = maps.Close() }()
	mapped, err := mappingsOf(maps, path)
	if err != nil {
		return nil, err
	}
	return readOnly(file.Progs, mapped)
})

// mapping is one line of proc(5) maps.
type mapping struct {
	span
	writable bool
}

// mappingsOf reads those of a file, in order of their addresses.
func mappingsOf(maps io.Reader, path string) (list []mapping, err error) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		if !strings.HasSuffix(lines.Text(), " "+path) {
			continue
		}
		var m mapping
		var permissions string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &m.begin, &m.end, &permissions); err != nil {
			return nil, fmt.Errorf("/proc/self/maps: %q: %w", lines.Text(), err)
		}
		m.writable = strings.Contains(permissions, "w")
		list = append(list, m)
	}
	return list, lines.Err()
}

// readOnly are the mappings that are a whole segment which is mapped for reading alone.
func readOnly(segments []*elf.Prog, mapped []mapping) (spans []span, err error) {
	page := uint64(os.Getpagesize())
	var loaded []*elf.Prog
	for _, s := range segments {
		if s.Type == elf.PT_LOAD {
			loaded = append(loaded, s)
		}
	}
	if len(loaded) == 0 || len(mapped) == 0 {
		return nil, errors.New("the program's file is not mapped")
	}
	bias := mapped[0].begin - loaded[0].Vaddr/page*page // where it lies beside where its file says
	for _, s := range loaded {
		whole := span{bias + s.Vaddr/page*page, bias + (s.Vaddr+s.Filesz+page-1)/page*page}
		for _, m := range mapped {
			if s.Flags&elf.PF_W == 0 && !m.writable && m.span == whole {
				spans = append(spans, whole)
			}
		}
	}
	return spans, nil
}
