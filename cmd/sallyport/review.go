package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/suggest"
)

type reviewFlags struct {
	observed
	decisions, output, reason, write, until, forTime string
	all, again, apply, yes, dryRun                   bool
}

const reviewMeans = `What waits is a workload (namespace and service account), a host and a port that was seen, and of which the
configuration in force says nothing: nobody registered the host, or no rule of the policies that close the
workload is for it. Its id is always the same.

Decisions are kept beside the log, in DATA/review, with who decided, when and why. Of a cluster they are kept
in the folder that --decisions names, which reviewers share. Each is a record of the log first; a lake takes
none, so with --lake there is review list only.`

func reviewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "review",
		Short: "Decide about hosts that were seen first: list, approve, reject, snooze",
		Long:  "Decide about hosts that workloads were seen to use, or to try, for the first time.\n\n" + reviewMeans,
		Example: `  sallyport review list --up ./egress
  sallyport review approve b9dd30d8802c --up ./egress --write ./egress/partner.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(reviewListCommand(), reviewApproveCommand(), reviewRejectCommand(), reviewSnoozeCommand())
	return cmd
}

func (f *reviewFlags) add(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	f.observed.add(cmd)
	cmd.Flags().StringVar(&f.decisions, "decisions", "", "folder of the decisions (default DATA/review)")
}

const reviewSource = "{--config-dir DIR | --up DIR | --kubeconfig FILE}"

func reviewListCommand() *cobra.Command {
	f := &reviewFlags{}
	cmd := &cobra.Command{
		Use:   "list " + reviewSource,
		Short: "List what waits for a word",
		Long:  "List what waits for a word, the oldest first; with --all also what was decided.\n\n" + reviewMeans,
		Example: `  sallyport review list --up ./egress
  sallyport review list --kubeconfig ~/.kube/config --decisions ./decisions --all -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.list(cmd) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "what was decided, too")
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	return cmd
}

func reviewApproveCommand() *cobra.Command {
	f := &reviewFlags{}
	cmd := &cobra.Command{
		Use:   "approve " + reviewSource + " ID",
		Short: "Approve it: print the objects that let it through, and keep who said so",
		Long: `Approve what waits under an id: print the objects that let it through, or --write them into a file that is not
there yet, and keep the decision. With --apply they are applied to the cluster with the rights of your own
kubeconfig, after a trial that changes nothing: what you may not write, what lint refuses, what changed
meanwhile and what another program writes is refused, and then nothing is approved. They are shown first, and you
are asked; with --yes they are printed afterwards, and with --dry-run they are shown, and nothing is approved.
Without --apply, pipe them to kubectl apply -f -.

An id whose evidence is gone, or that was decided already, is refused: exit code 1.`,
		Example: `  sallyport review approve b9dd30d8802c --up ./egress --write ./egress/partner.yaml --reason 'asked for in OPS-7'
  sallyport review approve b9dd30d8802c --kubeconfig ~/.kube/config --decisions ./decisions --apply
  sallyport review approve b9dd30d8802c --up ./egress -o json | jq -r .yaml
  sallyport review approve b9dd30d8802c --kubeconfig ~/.kube/config --decisions ./decisions | kubectl apply -f -`,
		Args: oneArgument("ID", "b9dd30d8802c"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.approve(cmd, args[0]) },
	}
	f.addWord(cmd)
	cmd.Flags().BoolVar(&f.apply, "apply", false, "apply the objects to the cluster, with the rights of your kubeconfig")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --apply: without a question, as where there is no terminal")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "with --apply: try it without effect and show the objects; nothing is approved")
	cmd.Flags().StringVar(&f.write, "write", "", "file that the objects are written to, such as one in the configuration's directory")
	cmd.Flags().StringVarP(&f.output, "output", "o", "yaml", "yaml (the objects) or json (the decision, with the objects as yaml)")
	return cmd
}

func reviewRejectCommand() *cobra.Command {
	f := &reviewFlags{}
	cmd := &cobra.Command{
		Use:   "reject " + reviewSource + " --reason TEXT ID",
		Short: "Reject it: it waits no more",
		Long:  "Reject what waits under an id. Nothing is closed by that: what happens to the traffic is the configuration's to say.",
		Example: `  sallyport review reject b9dd30d8802c --up ./egress --reason 'a typo, the job is mended'
  sallyport review list --up ./egress --all`,
		Args: oneArgument("ID", "b9dd30d8802c"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.reason == "" {
				return program.Misuse(errors.New("--reason: say why, for those who come after"))
			}
			return f.plainly(cmd, args[0], review.StateRejected, time.Time{})
		},
	}
	f.addWord(cmd)
	f.addOutput(cmd)
	return cmd
}

func reviewSnoozeCommand() *cobra.Command {
	f := &reviewFlags{}
	cmd := &cobra.Command{
		Use:   "snooze " + reviewSource + " {--for DURATION | --until TIME} ID",
		Short: "Put it off: it waits again later",
		Example: `  sallyport review snooze b9dd30d8802c --up ./egress --for 7d
  sallyport review snooze b9dd30d8802c --up ./egress --for 12h -o json | jq -r .until
  sallyport review snooze b9dd30d8802c --up ./egress --until 2030-01-31T00:00:00Z --reason 'after the audit'`,
		Args: oneArgument("ID", "b9dd30d8802c"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (f.until == "") == (f.forTime == "") {
				return program.Misuse(errors.New("--for and --until: give one of them"))
			}
			until, err := later(cmp.Or(f.until, f.forTime), time.Now())
			if err != nil {
				return program.Misuse(fmt.Errorf("--for and --until: %w", err))
			}
			return f.plainly(cmd, args[0], review.StateSnoozed, until)
		},
	}
	f.addWord(cmd)
	f.addOutput(cmd)
	cmd.Flags().StringVar(&f.forTime, "for", "", "for how long: 12h, 7d")
	cmd.Flags().StringVar(&f.until, "until", "", "until when, like 2030-01-31T00:00:00Z")
	return cmd
}

// addWord declares the flags of decisions.
func (f *reviewFlags) addWord(cmd *cobra.Command) {
	f.add(cmd)
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, at most 256 bytes")
	cmd.Flags().BoolVar(&f.again, "again", false, "decide anew about what was decided already")
}

// addOutput declares how a decision that comes with no objects is told.
func (f *reviewFlags) addOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text (a line on standard error) or json (the decision)")
}

// decided is what -o json tells of a decision.
type decided struct {
	review.Decision
	YAML    string `json:"yaml,omitempty"` // the objects of what is approved
	File    string `json:"file,omitempty"` // that they were written to
	Applied bool   `json:"applied,omitempty"`
	DryRun  bool   `json:"dryRun,omitempty"` // nothing of it was kept
}

// plainly decides what comes with no objects.
func (f *reviewFlags) plainly(cmd *cobra.Command, id, action string, until time.Time) error {
	if f.output != "text" && f.output != "json" {
		return program.Misuse(fmt.Errorf("-o %q: must be text or json", f.output))
	}
	word, err := f.decide(cmd, id, action, until, nil)
	if err == nil && f.output == "json" {
		err = printJSON(cmd.OutOrStdout(), decided{Decision: word})
	}
	return err
}

// files is where decisions are.
func (f *reviewFlags) files() (review.Files, error) {
	if f.decisions != "" {
		return review.Files{Dir: f.decisions}, nil
	}
	if f.log.cluster.given() {
		return review.Files{}, program.Misuse(errors.New("--decisions: name the folder in which this cluster's reviewers keep their decisions"))
	}
	data, err := auditData(f.log.data)
	return review.Files{Dir: filepath.Join(data, "review")}, err
}

// looked is what there is to decide about.
type looked struct {
	now     time.Time
	files   review.Files
	since   time.Time
	inForce suggest.Config
	waiting []suggest.Wait
}

// look reads the configuration and the log.
func (f *reviewFlags) look(ctx context.Context, errs io.Writer) (l looked, err error) {
	if err := f.check(); err != nil {
		return l, program.Misuse(err)
	}
	l.now = time.Now()
	since, err := seenSince("--since", f.since, l.now)
	if err != nil {
		return l, program.Misuse(err)
	}
	if l.files, err = f.files(); err != nil {
		return l, err
	}
	if l.inForce, err = f.inForce(ctx, errs); err != nil {
		return l, err
	}
	l.since = since
	log, err := f.sighted(ctx, since)
	if err != nil {
		return l, err
	}
	l.waiting = suggest.Waiting(l.inForce, log, l.now)
	return l, nil
}

func (f *reviewFlags) list(cmd *cobra.Command) error {
	if f.output != "table" && f.output != "json" {
		return program.Misuse(fmt.Errorf("-o %q: must be table or json", f.output))
	}
	l, err := f.look(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	decisions, err := l.files.Read()
	if err != nil {
		return err
	}
	items := []review.Item{}
	for _, i := range review.Items(l.waiting, decisions, l.now) {
		if f.all || i.State == review.StateWaiting {
			items = append(items, i)
		}
	}
	if f.output == "json" {
		return printJSON(cmd.OutOrStdout(), items)
	}
	return printItems(cmd.OutOrStdout(), items)
}

func printItems(out io.Writer, items []review.Item) error {
	const minute = "2006-01-02 15:04Z"
	b := bufio.NewWriter(out)
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tWORKLOAD\tHOST\tPORT\tFIRST\tLAST\tDAYS\tRECORDS\tWHY")
	for _, i := range items {
		port, first, last, why := "?", "", "", i.Why
		if i.Port != 0 {
			port = strconv.FormatUint(uint64(i.Port), 10)
		}
		if !i.First.IsZero() {
			first, last = i.First.UTC().Format(minute), i.Last.UTC().Format(minute)
		}
		if d := i.Decision; d != nil {
			why = fmt.Sprintf("%s by %s at %s", d.Action, d.By, d.At.UTC().Format(minute))
			if !d.Until.IsZero() {
				why += " until " + d.Until.UTC().Format(minute)
			}
			if d.Reason != "" {
				why += ": " + d.Reason // which is anybody's text
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s/%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", i.ID, i.State, visible.Text(i.Namespace), visible.Text(i.Workload), visible.Text(i.Host), port, first, last, i.Days, i.Records, visible.Text(why))
	}
	return errors.Join(t.Flush(), b.Flush())
}

// approve makes the objects before the decision is recorded, since who has no objects has approved nothing, and hands them out after it. What is to be
// applied is tried before, and recorded as such.
func (f *reviewFlags) approve(cmd *cobra.Command, id string) error {
	if f.output != "yaml" && f.output != "json" {
		return program.Misuse(fmt.Errorf("-o %q: must be yaml or json", f.output))
	}
	if err := f.mayApply(); err != nil {
		return err
	}
	var text []byte
	word, err := f.decide(cmd, id, review.StateApproved, time.Time{}, func(l looked, i *review.Item, word review.Decision) (act func() error, err error) {
		logs, err := f.seen(cmd.Context(), i.Namespace, l.since)
		if err != nil {
			return nil, err
		}
		var changes []suggest.Change
		if changes, text, err = review.Approval(l.inForce, logs[0], i, l.now); err != nil {
			return nil, err
		}
		if f.apply {
			ready, err := f.prepare(cmd.Context(), l, changes)
			if err == nil {
				err = f.agreed(cmd, word, text)
			}
			return func() error { return f.applied(cmd, i, ready) }, err
		}
		if f.write == "" {
			return func() error { return f.handOut(cmd, decided{Decision: word}, text) }, nil
		}
		if _, err := os.Lstat(f.write); err == nil {
			return nil, errThere(f.write)
		}
		return func() error { return writeNew(f.write, text) }, nil
	})
	switch {
	case errors.Is(err, errOnlyShown):
		return nil
	case err == nil && (f.apply && f.yes || f.write != "" && f.output == "json"): // what is there is there, whether or not it can be printed
		err = f.handOut(cmd, decided{Decision: word, File: f.write, Applied: f.apply}, text)
	}
	return err
}

// handOut prints what was approved.
func (f *reviewFlags) handOut(cmd *cobra.Command, d decided, text []byte) error {
	if f.output == "json" {
		d.YAML = string(text)
		return printJSON(cmd.OutOrStdout(), d)
	}
	_, err := cmd.OutOrStdout().Write(text)
	return err
}

func errThere(path string) error {
	return program.Misuse(fmt.Errorf("--write %q: the file is there already: name another", path))
}

// writeNew writes a file that is not there.
func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return errThere(path)
	} else if err != nil {
		return fmt.Errorf("--write: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("--write: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// errLakeTakesNone says why there are no words with --lake.
var errLakeTakesNone = program.Misuse(errors.New("--lake: a word is recorded before it counts, and a lake takes no records: name the log of an audit server, with --data or --kubeconfig. review list reads a lake"))

// decide keeps a decision about an id, once it is recorded, and what it is about is done. prepare, if any, finds out before whether that can be
// done, and how; others decide meanwhile. A stale id is refused.
func (f *reviewFlags) decide(cmd *cobra.Command, id, action string, until time.Time,
	prepare func(looked, *review.Item, review.Decision) (act func() error, err error)) (word review.Decision, err error) {
	if f.log.lake.where != "" {
		return word, errLakeTakesNone
	}
	if !review.IsID(id) {
		return word, program.Misuse(fmt.Errorf("ID %q: ids are 12 hexadecimal digits, as sallyport review list prints them", id))
	}
	if err := review.CheckReason(f.reason); err != nil {
		return word, program.Misuse(fmt.Errorf("--reason: %w", err))
	}
	l, err := f.look(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return word, err
	}
	who, err := caller()
	if err != nil {
		return word, err
	}
	stale, done := false, false
	find := func(before []review.Decision) (*review.Item, error) {
		item, err := review.Find(review.Items(l.waiting, before, l.now), id, f.again)
		stale = err != nil
		return item, err
	}
	act := func() error { return nil }
	if prepare != nil {
		before, err := l.files.Read()
		if err != nil {
			return word, err
		}
		item, err := find(before)
		if err != nil {
			return word, refusedAsStale(cmd, err)
		}
		if act, err = prepare(l, item, item.Word(action, who, f.reason, l.now, until)); err != nil {
			return word, err
		}
	}
	err = l.files.Decide(cmd.Context(), func(before []review.Decision) (d review.Decision, err error) {
		item, err := find(before)
		if err != nil {
			return d, err
		}
		if err := f.tell(cmd.Context(), item, action, f.reason); err != nil {
			return d, err
		}
		if err := act(); err != nil {
			return d, fmt.Errorf("it is in the log that %s is %s, and that was not kept, since it failed: %w", id, action, err)
		}
		done = true
		word = item.Word(action, who, f.reason, l.now, until)
		return word, nil
	})
	switch {
	case stale:
		return word, refusedAsStale(cmd, err)
	case done && err != nil:
		return word, fmt.Errorf("it is in the log that %s is %s, and it is done, objects that were to be applied or written are; that it is decided could not be kept: %w", id, action, err)
	case err != nil:
		return word, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "sallyport: %s is %s, by %s\n", id, action, who)
	return word, nil
}

func refusedAsStale(cmd *cobra.Command, err error) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "sallyport: %v\n", err)
	return program.AnswerNo{}
}

// caller is who runs this, by the operating system's word: the user's name, or its number where it has none.
func caller() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "uid " + strconv.Itoa(os.Getuid()), nil
	}
	return cmp.Or(u.Username, "uid "+u.Uid), nil
}
