package world

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Descendant is a process below another one, told apart from a later one with the same id by when it started.
type Descendant struct {
	PID     int
	Program string
	started string // in clock ticks since boot, proc(5)
}

// String is for messages: "envoy (123)".
func (d Descendant) String() string { return fmt.Sprintf("%s (%d)", d.Program, d.PID) }

// Exists tells whether this very process still runs.
func (d Descendant) Exists() bool {
	now, _, ok := readStat(d.PID)
	return ok && now.started == d.started && !isZombie(d.PID)
}

// Resident is its resident memory, in bytes.
func (d Descendant) Resident() (int64, error) { return resident(d.String(), d.PID) }

// Descendants lists the processes below one, ordered by id.
func Descendants(pid int) ([]Descendant, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]Descendant{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if d, parent, ok := readStat(id); ok {
			children[parent] = append(children[parent], d)
		}
	}
	var below []Descendant
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, d := range children[next[0]] {
			below = append(below, d)
			next = append(next, d.PID)
		}
	}
	slices.SortFunc(below, func(a, b Descendant) int { return a.PID - b.PID })
	return below, nil
}

// readStat reads /proc/PID/stat: "123 (name) S parent …", the start time is the 22nd field.
func readStat(pid int) (d Descendant, parent int, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return d, 0, false
	}
	text := string(raw)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return d, 0, false
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 20 {
		return d, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return Descendant{PID: pid, Program: text[open+1 : end], started: fields[19]}, parent, err == nil
}
