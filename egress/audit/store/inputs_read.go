package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// InputsFilter chooses inputs. Zero fields choose everything.
type InputsFilter struct {
	Since, Until time.Time // those whose last record is not before Since, and whose first is before Until
	// Where is a condition on the columns that InputsTable shares with the records, and Args are its parameters.
	Where string
	Args  []any
}

// EachInput calls f with the inputs that fit, those of one question one after the other. An error of f ends it and is returned. What is
// not gathered yet is made from the records. The numbers are those of whole days.
func EachInput(ctx context.Context, db *sql.DB, filter InputsFilter, f func(*inputs.Input) error) error {
	tx, err := db.BeginTx(ctx, nil) // the mark, and what is on either side of it, are of one moment
	if err != nil {
		return fmt.Errorf("audit inputs: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	version, until, err := inputsAt(ctx, tx)
	if err != nil {
		return err
	}
	of := chosen{came: "true", fits: "true"}
	if version == inputsVersion {
		of.came, of.args = ingestedColumn+" > ?", []any{until}
	}
	from, err := gathered(ctx, tx, of)
	if err != nil {
		return fmt.Errorf("audit inputs: %w", err)
	}
	found := filter.of(from, of.args)
	if version == inputsVersion {
		found = filter.table().and(found)
	}
	rows, err := tx.QueryContext(ctx, selectInputs(found.statement)+byQuestion(), found.args...)
	if err != nil {
		return fmt.Errorf("audit inputs: %w", err)
	}
	defer rows.Close()
	return scanInputs(rows, f)
}

// dayed is a SELECT of inputs, with the columns of inputColumns but that the days are bits of one number (days), and its parameters.
type dayed struct {
	statement string
	args      []any
}

// and is both.
func (d dayed) and(o dayed) dayed {
	return dayed{d.statement + " UNION ALL BY NAME " + o.statement, slices.Concat(d.args, o.args)}
}

// dayBit is a day among those that an input may be of.
const dayBit = "(1::HUGEINT << ((day - DATE '2000-01-01') % 126)::HUGEINT)"

// of is what fits of rows of inputs, whose SELECT has some parameters itself.
func (f *InputsFilter) of(from string, args []any) dayed {
	where, more := f.condition()
	return dayed{"SELECT * EXCLUDE (day), " + dayBit + " AS days FROM (" + from + ") WHERE " + where, slices.Concat(args, more)}
}

// table is what fits of InputsTable. The days of a kind are added up by its number, and only then are texts put to it: there are many days to a kind.
func (f *InputsFilter) table() dayed {
	from := InputsTable
	if f.Where != "" {
		from = allInputs
	}
	where, args := f.condition()
	list := []string{"kind", "bit_or(" + dayBit + ") AS days"}
	for _, c := range inputRowColumns {
		if c.name != "day" {
			list = append(list, c.merge())
		}
	}
	columns := []string{"days"}
	for _, c := range inputColumns {
		if c.name != "day" {
			columns = append(columns, c.name)
		}
	}
	return dayed{"SELECT " + strings.Join(columns, ", ") + " FROM (SELECT " + strings.Join(list, ", ") + " FROM " + from + " WHERE " + where + " GROUP BY ALL)" + ofInputKinds, args}
}

// condition is what holds for the rows that fit, and its parameters.
func (f *InputsFilter) condition() (where string, args []any) {
	where = "true"
	for _, bound := range []struct {
		condition string
		at        time.Time
	}{{" AND last >= ?", f.Since}, {" AND first < ?", f.Until}} {
		if !bound.at.IsZero() {
			where += bound.condition
			args = append(args, bound.at.UTC())
		}
	}
	if f.Where != "" {
		where += " AND (" + f.Where + ")"
		args = append(args, f.Args...)
	}
	return where, args
}

// selectInputs is the statement over what is dayed.
func selectInputs(from string) string {
	list := []string{"bit_count(bit_or(days))::UINTEGER AS days"}
	for _, c := range inputColumns {
		if c.name != ingestedColumn && c.name != "day" {
			list = append(list, c.merge())
		}
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM (" + from + ") GROUP BY ALL"
}

// byQuestion puts the inputs of one question one after the other.
func byQuestion() string {
	var columns []string
	for _, c := range inputColumns { // the first of those that are told apart are the question's
		if c.name != "day" && c.merged == "" {
			columns = append(columns, c.name)
		}
	}
	return " ORDER BY " + strings.Join(columns, ", ")
}

// scanInputs reads rows of selectInputs.
func scanInputs(rows *sql.Rows, f func(*inputs.Input) error) error {
	for rows.Next() {
		var x inputs.Input
		var decided, allowed, would string
		q, o := &x.Question, &x.Outcome
		if err := rows.Scan(&x.Days, &q.Namespace, &q.ServiceAccount, &q.Workload, &q.Labels, &q.Claim, &q.Reporter, &q.Direction,
			(*string)(&q.Class), &q.Protocol, &q.Host, &q.SNI, &q.Port, &q.Method, &q.URLPath, &q.Dialled, &q.Cut, &q.Beyond,
			(*string)(&o.Verdict), &o.Path, &decided, &allowed, &would, &o.Reason,
			&x.Count, &x.Lost, &x.First, &x.Last, &x.Replicas, &x.BytesSent, &x.BytesReceived); err != nil {
			return fmt.Errorf("audit inputs: %w", err)
		}
		x.First, x.Last = x.First.UTC(), x.Last.UTC()
		o.DecidedBy, o.AllowedBy, o.WouldDeny = unpack(decided), unpack(allowed), unpack(would)
		if err := f(&x); err != nil {
			return err
		}
	}
	return rows.Err()
}

// unpack reads an object as the table has it.
func unpack(text string) record.Object {
	p := strings.SplitN(text, "/", 5)
	if len(p) != 5 {
		return record.Object{}
	}
	return record.Object{Kind: p[0], Namespace: p[1], Name: p[2], Revision: p[3], Rule: p[4]}
}
