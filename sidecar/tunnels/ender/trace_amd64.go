package ender

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// traces says whether processes are traced on this kind of processor.
const traces = true

const (
	// standstill is how often it is looked whether a thread has stopped, and begins a system call of its own: half a second at least.
	standstill = 25_000
	// inCall is the same of one of ours, none of which waits for anything: five seconds at least. It is no time, since who traces and who is traced may both stand still (a control group that is frozen).
	inCall = 250_000
	// betweenLooks is how long a look waits for the next one.
	betweenLooks = 20 * time.Microsecond
	// below is how far under a thread's stack pointer its memory is nobody's: the red zone is 128 bytes (System V ABI, AMD64, 3.2.2).
	below = 512
	// syscallStop is the signal of a stop at a system call (PTRACE_O_TRACESYSGOOD).
	syscallStop = unix.SIGTRAP | 0x80
	// instruction is how long the instruction is by which a system call is made, in bytes, and opcode what it is.
	instruction = 2
	opcode      = "\x0f\x05"
	// What package unix has no name for (linux/ptrace.h).
	getSigmask, setSigmask, sigmaskBytes = 0x420a, 0x420b, 8
)

// thread is one of another process's that stands at a system call of its own, which it makes again when it is left.
type thread struct {
	pid, tid int
	saved    unix.PtraceRegs
	blocked  uint64 // its signals
}

// errBusy says that a thread did not get to a system call in time.
var errBusy = errors.New("it does not stand still")

// throughThread has a thread of a process call the kernel, and lets it go on where it was. It is neither one by which Envoy serves, nor the first: its stops would
// look to who waits for the process as if it had ended.
func throughThread(pid int, do func(*thread) error) error {
	done := make(chan error, 1)
	go func() {
		// What a thread traces the kernel lets go when that ends, whatever state it is in. So this one is never unlocked: it ends with its work.
		runtime.LockOSThread()
		done <- tryThreads(pid, do)
	}()
	return <-done
}

func tryThreads(pid int, do func(*thread) error) error {
	var err error = sockdiag.ErrGone
	for _, tid := range idleThreads(pid) {
		t := &thread{pid: pid, tid: tid}
		if err = t.enter(); err == nil {
			err = do(t)
			return errors.Join(err, t.leave())
		}
		if !errors.Is(err, errBusy) && !errors.Is(err, unix.ESRCH) {
			return cannotTrace(err)
		}
	}
	return err
}

// mostTried is how many threads are tried.
const mostTried = 4

// idleThreads are threads that stand still for a moment without anybody noticing: first those that look after others.
func idleThreads(pid int) (out []int) {
	folder := filepath.Join("/proc", strconv.Itoa(pid), "task")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var others []int
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		name, unread := os.ReadFile(filepath.Join(folder, e.Name(), "comm"))
		switch {
		case err != nil || unread != nil || tid == pid || strings.HasPrefix(string(name), "wrk:"):
		case strings.HasPrefix(string(name), "dog:"):
			out = append(out, tid)
		default:
			others = append(others, tid)
		}
	}
	out = append(out, others...)
	return out[:min(len(out), mostTried)]
}

// enter stops the thread where it begins a system call of its own, and has that call do nothing.
func (t *thread) enter() error {
	if err := ptrace(unix.PTRACE_SEIZE, t.tid, 0, unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(t.tid); err != nil {
		return err
	}
	for {
		status, err := t.wait(standstill)
		if err != nil {
			return err
		}
		signal := int(status.StopSignal())
		switch {
		case signal == int(syscallStop) && t.begins():
			return t.take()
		case signal == int(syscallStop), status>>16 == unix.PTRACE_EVENT_STOP:
			signal = 0
		}
		if err := unix.PtraceSyscall(t.tid, signal); err != nil {
			return err
		}
	}
}

// take keeps what is to be as it was. From then on the process ends with who traces it (PTRACE_O_EXITKILL), until that leaves the thread: one that went on with another call's result, or
// without its signals, would be a proxy that does nobody knows what.
func (t *thread) take() error {
	code := make([]byte, instruction)
	err := unix.PtraceGetRegs(t.tid, &t.saved)
	if err == nil {
		_, err = unix.PtracePeekText(t.tid, uintptr(t.saved.Rip)-instruction, code)
	}
	if err == nil && string(code) != opcode {
		err = errBusy
	}
	if err == nil {
		err = sigmask(getSigmask, t.tid, &t.blocked)
	}
	if err == nil {
		err = unix.PtraceSetOptions(t.tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL)
	}
	none := ^uint64(0)
	if err == nil { // a signal's handler would make calls between ours
		err = sigmask(setSigmask, t.tid, &none)
	}
	if err != nil {
		return errors.Join(err, unix.PtraceDetach(t.tid))
	}
	regs := t.saved
	regs.Orig_rax = none
	if err := unix.PtraceSetRegs(t.tid, &regs); err != nil {
		return errors.Join(err, sigmask(setSigmask, t.tid, &t.blocked), unix.PtraceDetach(t.tid))
	}
	return t.step()
}

// begins says whether the stop at a system call is its beginning.
func (t *thread) begins() bool {
	var info struct { // ptrace_syscall_info (linux/ptrace.h)
		op   uint8
		_    [3]uint8
		arch uint32
		_    [10]uint64
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(t.tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0) //nolint:gosec // G103: so the kernel wants it
	return errno == 0 && info.op == unix.PTRACE_SYSCALL_INFO_ENTRY && info.arch == unix.AUDIT_ARCH_X86_64
}

// call has the thread call the kernel.
func (t *thread) call(number, a, b, c uintptr) (uintptr, error) {
	regs := t.saved
	regs.Rip -= instruction
	regs.Rax, regs.Orig_rax = uint64(number), ^uint64(0)
	regs.Rdi, regs.Rsi, regs.Rdx = uint64(a), uint64(b), uint64(c)
	if err := unix.PtraceSetRegs(t.tid, &regs); err != nil {
		return 0, err
	}
	for range 2 { // it begins, and is over
		if err := t.step(); err != nil {
			return 0, err
		}
	}
	if err := unix.PtraceGetRegs(t.tid, &regs); err != nil {
		return 0, err
	}
	if said := int64(regs.Rax); said < 0 {
		return 0, syscall.Errno(-said)
	}
	return uintptr(regs.Rax), nil
}

// step lets the thread go on to its next stop at a system call. Where somebody stops the whole process meanwhile (SIGSTOP cannot be held back), that counts when the thread is left.
func (t *thread) step() error {
	signal := 0
	for {
		if err := unix.PtraceSyscall(t.tid, signal); err != nil {
			return err
		}
		status, err := t.wait(inCall)
		switch {
		case err != nil:
			return err
		case status.StopSignal() == syscallStop:
			return nil
		case status>>16 == unix.PTRACE_EVENT_STOP:
			signal = 0
		case status.StopSignal() == unix.SIGSTOP:
			signal = int(unix.SIGSTOP)
		default:
			return fmt.Errorf("a thread stopped by %v", status.StopSignal())
		}
	}
}

// leave has the thread make its own call, as if nothing had been.
func (t *thread) leave() error {
	regs := t.saved
	regs.Rip -= instruction
	regs.Rax, regs.Orig_rax = t.saved.Orig_rax, ^uint64(0)
	err := unix.PtraceSetRegs(t.tid, &regs)
	return errors.Join(err, sigmask(setSigmask, t.tid, &t.blocked), unix.PtraceDetach(t.tid))
}

// scratch are some zeros of its memory.
func (t *thread) scratch(size int) (uintptr, error) {
	at := (uintptr(t.saved.Rsp) - below) &^ 15
	_, err := unix.PtracePokeData(t.tid, at, make([]byte, size))
	return at, err
}

// wait waits until the thread stops, so many looks at most.
func (t *thread) wait(looks int) (status unix.WaitStatus, err error) {
	for {
		got, err := unix.Wait4(t.tid, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD), err == nil && got == t.tid && !status.Stopped():
			return 0, unix.ESRCH // it has ended
		case err != nil:
			return 0, err
		case got == t.tid:
			return status, nil
		case looks == 0:
			return 0, errBusy
		}
		looks--
		time.Sleep(betweenLooks)
	}
}

// sigmask reads or sets the signals that a thread has blocked. Their address is made a number in the call itself: a stack moves when it grows.
func sigmask(request, tid int, set *uint64) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), sigmaskBytes, uintptr(unsafe.Pointer(set)), 0, 0); errno != 0 { //nolint:gosec // G103: likewise
		return errno
	}
	return nil
}

func ptrace(request, tid int, address, data uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), address, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
