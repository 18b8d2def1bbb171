package controlplane

import (
	"bytes"
	"debug/elf"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestProgramPages: what is given back of the program is what nobody writes to, whole segments of its file, and it goes on with all of them given back.
func TestProgramPages(t *testing.T) {
	pages, err := programPages()
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) == 0 {
		t.Fatal("nothing of the program can be given back")
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	all, err := mappingsOf(bytes.NewReader(maps), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if i := slices.IndexFunc(all, func(m mapping) bool { return m.span == p }); i < 0 || all[i].writable {
			t.Errorf("%x is given back of %v", p, all)
		}
	}
	giveMemoryBack()
	if again, err := programPages(); err != nil || !slices.Equal(again, pages) {
		t.Errorf("after it the program's pages are %v, not %v: %v", again, pages, err)
	}
}

// TestReadOnly: also where the kernel has put the program elsewhere, and the loader has written to a part of what may be written and
// protected it then, that part is none of it.
func TestReadOnly(t *testing.T) {
	maps := `
555555554000-555555556000 r--p 00000000 fe:00 7    /bin/sallyport
555555556000-55555555a000 r-xp 00002000 fe:00 7    /bin/sallyport
55555555a000-55555555c000 r--p 00006000 fe:00 7    /bin/sallyport
55555555c000-55555555d000 r--p 00007000 fe:00 7    /bin/sallyport
55555555d000-55555555f000 rw-p 00008000 fe:00 7    /bin/sallyport
55555555f000-555555562000 rw-p 00000000 00:00 0
7ffff7dd0000-7ffff7df6000 r--p 00000000 fe:00 9    /lib/x86_64-linux-gnu/libc.so.6
`
	all, err := mappingsOf(strings.NewReader(maps), "/bin/sallyport")
	if err != nil || len(all) != 5 {
		t.Fatalf("%v, %v", all, err)
	}
	segment := func(flags elf.ProgFlag, at, size uint64) *elf.Prog {
		return &elf.Prog{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: flags, Vaddr: at, Filesz: size}}
	}
	segments := []*elf.Prog{
		{ProgHeader: elf.ProgHeader{Type: elf.PT_NOTE, Flags: elf.PF_R, Vaddr: 0x40, Filesz: 0x100}},
		segment(elf.PF_R, 0, 0x1f00), segment(elf.PF_R|elf.PF_X, 0x2000, 0x3fff), segment(elf.PF_R, 0x6000, 0x1f36), segment(elf.PF_R|elf.PF_W, 0x8f36, 0x2000),
	}
	got, err := readOnly(segments, all)
	want := []span{{0x555555554000, 0x555555556000}, {0x555555556000, 0x55555555a000}, {0x55555555a000, 0x55555555c000}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%x, not %x: %v", got, want, err)
	}
	if _, err := readOnly(segments, nil); err == nil {
		t.Error("a program whose file is not mapped has pages of it")
	}
}
