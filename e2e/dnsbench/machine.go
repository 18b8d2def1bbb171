package main

import (
	"fmt"
	"os"
	"strings"
)

// machine names processors, memory and kernel.
func machine() string {
	cpus, model := 0, "unknown processor"
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			cpus, model = cpus+1, strings.TrimSpace(value)
		}
	}
	memory := "unknown memory"
	for line := range strings.Lines(read("/proc/meminfo")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			memory = fields[1] + " kB"
		}
	}
	return fmt.Sprintf("%d × %s, %s, Linux %s", cpus, model, memory, strings.TrimSpace(read("/proc/sys/kernel/osrelease")))
}

func read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(text)
}
