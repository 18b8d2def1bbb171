package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// Holder is the writer's name among store.Options.Held.
const Holder = "lake"

// Options of a Writer. Zero fields of the second group take the defaults.
type Options struct {
	Store   *store.Store
	Place   place.Place
	Dir     string // the store's folder; the writer keeps lake.json and lake-status.json there
	Scratch string // a folder for files on their way, which is store.Options.Scratch

	Region, Cluster string        // whose records they are; default "default"
	Every           time.Duration // how often what came in goes out; default 1 h
	FileBytes       int64         // about how large files become; default 128 MiB
	Records         int           // how many go into a file at most; default 1,000,000
	Keep            time.Duration // how long files that became part of others stay, for those who still read them; default 0
	Patience        time.Duration // the longest pause before what failed is tried again; default 5 min
	Logger          *slog.Logger
	Metrics         *Metrics
	Now             func() time.Time
}

// label is what a region or a cluster may be called: it is a folder's name, and a value for engines that read partitions.
var label = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Check says what is wrong with options.
func (o *Options) Check() error {
	for what, value := range map[string]string{"region": o.Region, "cluster": o.Cluster} {
		if value != "" && !label.MatchString(value) {
			return fmt.Errorf("the %s %q: letters, digits, dots, dashes and underscores, 63 at most", what, value)
		}
	}
	return nil
}

// Writer brings a store's records to a lake.
type Writer struct {
	Options
	state    *state
	contents *content.Contents // nil: what is in the lake has to be read
	broken   map[string]error  // files of the lake that cannot be read, by their names: until the next start nothing is made of them
	status   Status
	during   func(step string) // called between steps, by tests
}

// NewWriter makes a writer; call Run.
func NewWriter(o Options) (*Writer, error) {
	o.Region, o.Cluster = cmp.Or(o.Region, "default"), cmp.Or(o.Cluster, "default")
	o.Every, o.FileBytes, o.Records = cmp.Or(o.Every, time.Hour), cmp.Or(o.FileBytes, 128<<20), cmp.Or(o.Records, 1_000_000)
	o.Patience = cmp.Or(o.Patience, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := emptyDir(o.Scratch); err != nil {
		return nil, err
	}
	s, err := loadState(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("audit lake: %w", err)
	}
	return &Writer{Options: o, state: s, during: func(string) {}, status: Status{Lake: o.Place.String(), Writer: s.Writer}}, nil
}

// emptyDir makes a folder, or empties it.
func emptyDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("audit lake: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("audit lake: %w", err)
	}
	return nil
}

// Run works until ctx ends. What fails is tried again for ever, after longer and longer pauses; records wait in the store meanwhile.
func (w *Writer) Run(ctx context.Context) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.MaxInterval = w.Patience
	for ctx.Err() == nil {
		pause := w.Every
		if err := w.Pass(ctx); err == nil {
			pauses.Reset()
		} else if ctx.Err() == nil {
			pause = min(pauses.NextBackOff(), w.Patience)
			w.Logger.Error("audit lake: records wait in the store", "lake", w.Place.String(), "err", err, "again in", pause.Round(time.Millisecond).String())
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// Pass brings to the lake what came in before it, and compacts files.
func (w *Writer) Pass(ctx context.Context) error {
	err := w.pass(ctx)
	if err != nil {
		w.contents = nil // whatever was half done is found again
	}
	w.tell(ctx, err)
	return err
}

func (w *Writer) pass(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := w.sweep(ctx, w.contents); err != nil {
		return err
	}
	seal, err := w.Store.Seal(ctx, w.contents.Until)
	if err != nil {
		return err
	}
	for from := w.contents.Until; ; {
		to, rows, err := store.Window(ctx, w.Store.DB(), from, seal, w.Records)
		if err != nil {
			return err
		}
		if rows > 0 {
			if err := w.export(ctx, from, to); err != nil {
				return err
			}
		}
		w.Store.Release(Holder, to)
		w.status.Until = to
		if from = to; !to.Before(seal) {
			break
		}
	}
	if err := w.compact(ctx); err != nil {
		return err
	}
	return w.harmed()
}

// start reads what is in the lake, and finishes what was begun.
func (w *Writer) start(ctx context.Context) error {
	if w.contents != nil {
		return nil
	}
	if err := emptyDir(w.Scratch); err != nil {
		return err
	}
	c, err := content.ReadOf(ctx, w.Place, w.state.Writer)
	if err != nil {
		return err
	}
	if err := w.sweep(ctx, c); err != nil {
		return err
	}
	if p := w.state.Plan; p != nil && p.Number == c.Number+1 { // otherwise it is done, or somebody emptied the lake
		w.contents = c
		if err := w.do(ctx, p); err != nil {
			return err
		}
	}
	w.contents = c
	w.Store.Release(Holder, c.Until)
	return nil
}

// sweep removes the files that were replaced long enough ago. After a restart it may remove some again: no name comes twice.
func (w *Writer) sweep(ctx context.Context, c *content.Contents) error {
	var due []string
	kept := slices.DeleteFunc(slices.Clone(c.Replaced), func(r content.Replaced) bool {
		over := !r.At.After(w.Now().Add(-w.Keep))
		if over {
			due = append(due, r.Name)
		}
		return over
	})
	if err := w.Place.Delete(ctx, due); err != nil {
		return err
	}
	c.Replaced = kept
	return nil
}

// export plans a step that brings the records of a window, and does it.
func (w *Writer) export(ctx context.Context, from, to time.Time) error {
	p := &plan{Number: w.contents.Number + 1, Time: w.Now().UTC(), Region: w.Region, Cluster: w.Cluster, From: from, Until: to}
	days, err := w.days(ctx, p)
	if err != nil {
		return err
	}
	for _, d := range days {
		p.Days = append(p.Days, d.day)
	}
	return w.begin(ctx, p)
}

// begin writes a plan down, and does it.
func (w *Writer) begin(ctx context.Context, p *plan) error {
	w.state.Plan = p
	if err := w.state.save(w.Dir); err != nil {
		return err
	}
	w.during("planned")
	return w.do(ctx, p)
}

// do does what is planned, be it begun before or not.
func (w *Writer) do(ctx context.Context, p *plan) error {
	step := &content.Commit{Number: p.Number, Time: p.Time, Until: p.Until}
	var err error
	if len(p.Inputs) > 0 {
		if err = w.merge(ctx, p, step); errors.As(err, new(unreadable)) {
			err = w.giveUp(ctx, p, step, err)
		}
	} else {
		err = w.copyOut(ctx, p, step)
	}
	if err != nil {
		return err
	}
	w.during("written")
	if err := w.contents.Commit(ctx, w.Place, step); err != nil {
		return err
	}
	w.during("committed")
	if err := w.sweep(ctx, w.contents); err != nil {
		return err
	}
	w.during("removed")
	if err := w.contents.Tidy(ctx, w.Place); err != nil {
		return err
	}
	w.state.Plan = nil
	w.Metrics.did(p, step)
	return w.state.save(w.Dir)
}

// giveUp plans nothing more with a file that cannot be read, and lets the others go on: what is in it is lost, and what comes in is not. The step's number is
// taken all the same, so that no name comes twice.
func (w *Writer) giveUp(ctx context.Context, p *plan, step *content.Commit, why error) error {
	if err := w.Place.Delete(ctx, []string{p.name(w.state.Writer, p.Inputs[0].Partition())}); err != nil {
		return errors.Join(err, why)
	}
	step.Add, step.Remove = nil, nil
	w.Logger.Error("audit lake: a file cannot be read, and stays as it is", "err", why)
	return nil
}

// day is what a window has of one.
type day struct {
	day         string
	records     int64
	first, last time.Time
}

// ofDay is the day that a record is filed under.
const ofDay = "strftime(" + store.BelievedDay + ", '%Y-%m-%d')"

func (p *plan) window() string {
	return "ingested > " + query.Instant(p.From) + " AND ingested <= " + query.Instant(p.Until)
}

func (w *Writer) days(ctx context.Context, p *plan) (days []day, err error) {
	rows, err := w.Store.DB().QueryContext(ctx, "SELECT "+ofDay+" AS day, count(*), min(time), max(time) FROM "+store.Table+" WHERE "+p.window()+" GROUP BY ALL ORDER BY day")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d day
		if err := rows.Scan(&d.day, &d.records, &d.first, &d.last); err != nil {
			return nil, err
		}
		days = append(days, d)
	}
	return days, rows.Err()
}

// copyOut brings a window's records to the lake, a file a day.
func (w *Writer) copyOut(ctx context.Context, p *plan, step *content.Commit) error {
	days, err := w.days(ctx, p)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, d := range days {
		there[d.day] = true
		f := content.File{Name: p.name(w.state.Writer, p.partition(d.day)), Schema: schema.Version, Signed: true, Records: d.records, First: d.first.UTC(), Last: d.last.UTC()}
		if err := w.write(ctx, events(p.window()+" AND "+ofDay+" = "+query.Literal(d.day)), &f); err != nil {
			return err
		}
		step.Add = append(step.Add, f)
	}
	// Where the store lost records between two tries, a day may have none left.
	for _, d := range p.Days {
		if !there[d] {
			if err := w.Place.Delete(ctx, []string{p.name(w.state.Writer, p.partition(d))}); err != nil {
				return err
			}
		}
	}
	return nil
}

// write puts the result of a SELECT into the lake, and says how large it is. It must have as many rows as f says.
func (w *Writer) write(ctx context.Context, statement string, f *content.File) error {
	file := filepath.Join(w.Scratch, "out.parquet")
	result, err := w.Store.DB().ExecContext(ctx, fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION zstd)", statement, query.Literal(file)))
	if err != nil {
		return errors.Join(err, durable.Remove(file))
	}
	defer os.Remove(file)
	if n, err := result.RowsAffected(); err != nil || n != f.Records {
		return errors.Join(fmt.Errorf("%s: DuckDB wrote %d of %d records", f.Name, n, f.Records), err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	f.Bytes = info.Size()
	return w.Place.Put(ctx, f.Name, file)
}

// waiting counts the records that are not in the lake.
func (w *Writer) waiting(ctx context.Context) (n int64, err error) {
	err = w.Store.DB().QueryRowContext(ctx, "SELECT count(*) FROM "+store.Table+" WHERE ingested > ?", w.status.Until).Scan(&n)
	return n, err
}
