package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The processors: one for the Envoys that are measured, one for everything beside them.
const (
	envoyCPU = 0
	otherCPU = 1
)

// pin keeps all threads of a process, and those that they start, on a processor.
func pin(pid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil && err != unix.ESRCH {
			return fmt.Errorf("pinning process %d to processor %d: %w", pid, cpu, err)
		}
	}
	return nil
}

// tick is the unit of times in /proc: USER_HZ, which is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// used is the processor time of a process in user and system mode (fields 14 and 15 of proc(5) stat).
func used(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	fields, err := stat(pid)
	if err != nil {
		return 0
	}
	return ticks(fields, 14-3) + ticks(fields, 15-3)
}

// parent is the process that started one: of an Envoy, its agent.
func parent(pid int) (int, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(fields[4-3])
}

// stat is what the kernel says of a process (proc(5) stat), from field 3 on, which is always there.
func stat(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // what is before may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 4-2 {
		return nil, fmt.Errorf("process %d: /proc says %q of it", pid, text)
	}
	return fields, nil
}

func ticks(fields []string, i int) time.Duration {
	if i >= len(fields) {
		return 0
	}
	n, err := strconv.ParseInt(fields[i], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * tick
}

// busy is how long a processor has not been idle since boot (the lines "cpuN user nice system idle iowait …" of proc(5)
// stat).
func busy(cpu int) time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(stat)) {
		fields := strings.Fields(line)
		if fields[0] != fmt.Sprintf("cpu%d", cpu) {
			continue
		}
		var sum time.Duration
		for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq
			sum += ticks(fields, i)
		}
		return sum
	}
	return 0
}
