// Bench measures an audit server with a log of a given size: what taking a record costs and how much room it has, how long questions and the
// pages of a day take, and how much memory the server has while records come steadily.
//
// The server is a process of its own, the program that is measured; records go in by its socket, as agents' do. Wall-clock times mean something
// on an idle machine only; beside each there is the server's processor time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// options are the flags.
type options struct {
	program   string
	records   int
	days      int
	rounds    int
	rate      int
	steady    time.Duration
	data, doc string
	args      string
}

func main() {
	var o options
	flag.StringVar(&o.program, "program", "bin/sallyport", "the program")
	flag.IntVar(&o.records, "records", 3_000_000, "records in the log")
	flag.IntVar(&o.days, "days", 30, "days that they are spread over")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each page is asked for; the median counts")
	flag.IntVar(&o.rate, "rate", 20_000, "records a second that come steadily")
	flag.DurationVar(&o.steady, "steady", 30*time.Second, "how long")
	flag.StringVar(&o.data, "data", "", "folder for the log, kept, and used again when its log has so many records; default: one that is removed")
	flag.StringVar(&o.args, "args", "", "further arguments of the server, with spaces between")
	flag.StringVar(&o.doc, "doc", "", "page into which the figures are written, between its marks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(3)
	}
}

func run(ctx context.Context, o options) error {
	if o.records < 1 || o.days < 1 || o.rounds < 1 || o.rate < 1 {
		return fmt.Errorf("-records, -days, -rounds and -rate are at least 1")
	}
	if o.data == "" {
		dir, err := os.MkdirTemp("", "bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.data = dir
	}
	r := &report{options: o}
	steps := []func(context.Context, *server, *report) error{fill, ask, look, steadily}
	for i, step := range steps {
		s, err := serve(ctx, o)
		if err != nil {
			return err
		}
		if err = s.settle(ctx); err == nil {
			err = step(ctx, s, r)
		}
		if ended := s.end(); err == nil {
			err = ended
		}
		if err != nil {
			return err
		}
		if i == 0 { // the log is closed, and as large as it stays
			info, err := os.Stat(filepath.Join(o.data, "audit", "audit.duckdb"))
			if err != nil {
				return err
			}
			r.size = float64(info.Size()) / float64(o.records)
		}
	}
	text := r.String()
	fmt.Print(text)
	if o.doc == "" {
		return nil
	}
	return write(o.doc, text)
}

// The marks of the page.
const (
	begin = "<!-- audit server -->\n"
	end   = "<!-- /audit server -->\n"
)

// write puts the figures into a page.
func write(file, text string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(page), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s has no place between %s and %s", file, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(before+begin+text+end+after), 0o644)
}

// report is what was measured.
type report struct {
	options
	filled    int     // records that were handed in
	took, cpu float64 // seconds
	size      float64 // bytes a record
	rows      []asked
	rate      float64 // records a second that came steadily
	mu        sync.Mutex
	resident  float64 // MiB, at most
}

// note looks at how much memory the server has.
func (r *report) note(s *server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resident = max(r.resident, s.resident())
}

// asked is a question or a page: its median, and the server's processor time for one.
type asked struct {
	what      string
	took, cpu time.Duration
	target    time.Duration
}

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d processors, %s; %s; a log of %s records over %d days; medians of %d.\n\n", runtime.NumCPU(), load(), time.Now().UTC().Format(time.DateOnly), thousands(r.records), r.days, r.rounds)
	fmt.Fprintf(&b, "| the server | | target |\n|---|---:|---:|\n")
	if r.filled > 0 {
		fmt.Fprintf(&b, "| records taken by its socket as fast as it goes, a second | %s | |\n", thousands(int(float64(r.filled)/r.took)))
		fmt.Fprintf(&b, "| its processor time for one of them | %.1f µs | ≤ 10 µs |\n", r.cpu/float64(r.filled)*1e6)
	}
	fmt.Fprintf(&b, "| bytes on disk a record | %.1f | ≤ 25 |\n", r.size)
	fmt.Fprintf(&b, "| resident at most while %s records a second came, %s were asked for | %.0f MiB | ≤ 512 MiB |\n\n", thousands(int(r.rate)), thousands(r.options.rate), r.resident)
	fmt.Fprintf(&b, "| question, page | took | processor time | target at 100 M |\n|---|---:|---:|---:|\n")
	for _, a := range r.rows {
		fmt.Fprintf(&b, "| %s | %d ms | %d ms | ≤ %d ms |\n", a.what, a.took.Milliseconds(), a.cpu.Milliseconds(), a.target.Milliseconds())
	}
	return b.String()
}

// load says how busy the machine is otherwise.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	return "load " + strings.Fields(string(text))[0]
}

// thousands writes a number in groups of three.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
