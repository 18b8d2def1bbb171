// Package bounds finds out what the machine lets a process take: memory, by its control group, and open files.
//
// In: the files of the kernel; out: numbers. It imports nothing of ours.
package bounds
