package content

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

// What is in a lake is said by one log for each writer: _sallyport/WRITER/NUMBER.json, each of which adds files and removes others; every
// checkpointEvery there is NUMBER.checkpoint.json beside, with all files of then. A file counts when the log says so.
const (
	Folder          = "_sallyport/"
	checkpointEvery = 50
)

// File is a Parquet file of the lake.
type File struct {
	Name    string    `json:"name"`
	Schema  int       `json:"schema"` // the version of the record's columns
	Records int64     `json:"records"`
	Bytes   int64     `json:"bytes"`
	First   time.Time `json:"first"` // the earliest record's time
	Last    time.Time `json:"last"`  // the latest's
	// Signed: its numbers are signed, as in the list of Columns. Those of files of before are not, and some engines refuse such.
	Signed bool `json:"signed,omitempty"`
}

// Partition is the folder of a file.
func (f *File) Partition() string { return path.Dir(f.Name) }

// Commit is one step of a writer's log.
type Commit struct {
	Number int       `json:"number"`
	Time   time.Time `json:"time"`
	Until  time.Time `json:"until"` // up to which moment of coming in the lake has records
	Add    []File    `json:"add,omitempty"`
	Remove []string  `json:"remove,omitempty"`
}

// Contents are what a writer's log says in the end.
type Contents struct {
	Writer string
	Number int       // of the last commit; 0: none
	Time   time.Time // of the last commit
	Until  time.Time
	Files  []File
	// Replaced are files that count no more, and may be there still: for those who read what counted a moment ago.
	Replaced []Replaced
}

// Replaced is a file that was made part of another.
type Replaced struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// checkpoint is Contents on disk.
type checkpoint struct {
	Commit
	Files    []File     `json:"files"`
	Replaced []Replaced `json:"replaced,omitempty"`
}

func (c *Contents) apply(step *Commit) {
	c.Files = slices.DeleteFunc(c.Files, func(f File) bool { return slices.Contains(step.Remove, f.Name) })
	c.Files = append(c.Files, step.Add...)
	for _, name := range step.Remove {
		c.Replaced = append(c.Replaced, Replaced{name, step.Time})
	}
	c.Number, c.Time, c.Until = step.Number, step.Time, step.Until
}

func commitName(writer string, number int) string {
	return fmt.Sprintf("%s%s/%012d.json", Folder, writer, number)
}

func checkpointName(writer string, number int) string {
	return strings.TrimSuffix(commitName(writer, number), ".json") + ".checkpoint.json"
}

// Commit makes a step last. That there is one of this number is no error if it says the same.
func (c *Contents) Commit(ctx context.Context, p place.Place, step *Commit) error {
	data, err := json.Marshal(step)
	if err != nil {
		return err
	}
	err = p.Write(ctx, commitName(c.Writer, step.Number), append(data, '\n'), true)
	if errors.Is(err, place.ErrExists) {
		there, e := p.Read(ctx, commitName(c.Writer, step.Number))
		if e != nil {
			return e
		}
		if string(there) != string(data)+"\n" {
			return fmt.Errorf("%s says something else: somebody else writes as this writer; give one of the two servers an empty data folder, or another lake", commitName(c.Writer, step.Number))
		}
	} else if err != nil {
		return err
	}
	c.apply(step)
	return nil
}

// Tidy writes a checkpoint where one is due, and removes the steps that the one before it has.
func (c *Contents) Tidy(ctx context.Context, p place.Place) error {
	if c.Number == 0 || c.Number%checkpointEvery != 0 {
		return nil
	}
	data, err := json.Marshal(checkpoint{Commit{Number: c.Number, Time: c.Time, Until: c.Until}, c.Files, c.Replaced})
	if err == nil {
		err = p.Write(ctx, checkpointName(c.Writer, c.Number), data, false)
	}
	if err != nil {
		return err
	}
	names, err := p.List(ctx, Folder+c.Writer+"/")
	if err != nil {
		return err
	}
	old := commitName(c.Writer, c.Number-checkpointEvery)
	return p.Delete(ctx, slices.DeleteFunc(names, func(name string) bool { return name >= strings.TrimSuffix(old, ".json") }))
}

var logEntry = regexp.MustCompile(`^_sallyport/([0-9a-f]{16})/([0-9]{12})(\.checkpoint)?\.json$`)

// ReadAll reads the logs of all writers, in the order of their names.
func ReadAll(ctx context.Context, p place.Place) (all []*Contents, err error) {
	for range 3 { // steps go while it reads, when there is a checkpoint that has them
		all, err = readOnce(ctx, p, Folder)
		if !errors.Is(err, place.ErrGone) {
			break
		}
	}
	return all, err
}

// ReadOf reads one writer's log.
func ReadOf(ctx context.Context, p place.Place, writer string) (*Contents, error) {
	all, err := readOnce(ctx, p, Folder+writer+"/")
	if err != nil || len(all) == 0 {
		return &Contents{Writer: writer}, err
	}
	return all[0], nil
}

func readOnce(ctx context.Context, p place.Place, prefix string) (all []*Contents, err error) {
	names, err := p.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	byWriter := map[string][]string{}
	var writers []string
	for _, name := range names {
		if m := logEntry.FindStringSubmatch(name); m != nil {
			if byWriter[m[1]] == nil {
				writers = append(writers, m[1])
			}
			byWriter[m[1]] = append(byWriter[m[1]], name)
		}
	}
	for _, writer := range writers {
		c, err := replay(ctx, p, writer, byWriter[writer])
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// replay reads a writer's log: the last checkpoint, and the steps behind it.
func replay(ctx context.Context, p place.Place, writer string, names []string) (*Contents, error) {
	c := &Contents{Writer: writer}
	last := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".checkpoint.json") {
			last = name
		}
	}
	if last != "" {
		var from checkpoint
		if err := readJSON(ctx, p, last, &from); err != nil {
			return nil, err
		}
		c.apply(&from.Commit)
		c.Files, c.Replaced = from.Files, append(c.Replaced, from.Replaced...)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".checkpoint.json") || name <= commitName(writer, c.Number) {
			continue
		}
		var step Commit
		if err := readJSON(ctx, p, name, &step); err != nil {
			return nil, err
		}
		if step.Number != c.Number+1 {
			return nil, fmt.Errorf("%s: %s%s: step %d is missing", p, Folder, writer, c.Number+1)
		}
		c.apply(&step)
	}
	return c, nil
}

func readJSON(ctx context.Context, p place.Place, name string, to any) error {
	data, err := p.Read(ctx, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%s: %s: %w", p, name, err)
	}
	return nil
}
