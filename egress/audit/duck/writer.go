package duck

import (
	"errors"
	"fmt"
	"net/url"

	duckdb "github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"
)

// Writer appends rows to tables by a connection of its own, for one goroutine. The driver's appender takes each value as an interface, and calls
// into C for each; a Writer's values are put where DuckDB reads them, a chunk of rows at a time (Vector).
type Writer struct {
	db   mapping.Database
	conn mapping.Connection
	room room
}

// OpenWriter is for a file that Open has open, with the same settings. Close it before the last of the file's other connections.
func OpenWriter(file string, settings url.Values) (*Writer, error) {
	var config mapping.Config
	if mapping.CreateConfig(&config) == mapping.StateError {
		return nil, errors.New("duckdb: no room for settings")
	}
	defer mapping.DestroyConfig(&config)
	for name := range settings {
		if mapping.SetConfig(config, name, settings.Get(name)) == mapping.StateError {
			return nil, fmt.Errorf("duckdb: %s=%s is no setting", name, settings.Get(name))
		}
	}
	if mapping.SetConfig(config, "duckdb_api", "go") == mapping.StateError { // as the driver says, for both are to be one database
		return nil, errors.New("duckdb: it does not take who calls")
	}
	w := &Writer{}
	var problem string
	if mapping.GetOrCreateFromCache(duckdb.GetInstanceCache(), file, &w.db, config, &problem) == mapping.StateError {
		mapping.Close(&w.db)
		return nil, fmt.Errorf("duckdb: open %s: %s", file, problem)
	}
	if mapping.Connect(w.db, &w.conn) == mapping.StateError {
		mapping.Close(&w.db)
		return nil, fmt.Errorf("duckdb: open %s: no connection", file)
	}
	return w, nil
}

// Close ends the connection, and rolls back what is under way.
func (w *Writer) Close() {
	mapping.Disconnect(&w.conn)
	mapping.Close(&w.db)
}

// Transact runs f between BEGIN and COMMIT.
func (w *Writer) Transact(f func() error) error {
	err := w.Execute("BEGIN TRANSACTION")
	if err == nil {
		err = f()
	}
	if err == nil {
		err = w.Execute("COMMIT")
	}
	if err == nil {
		return nil
	}
	if rollback := w.Execute("ROLLBACK"); rollback != nil { // a new connection has no transaction on it, whatever ended this one
		mapping.Disconnect(&w.conn)
		if mapping.Connect(w.db, &w.conn) == mapping.StateError {
			err = errors.Join(err, errors.New("duckdb: no connection"))
		}
	}
	return err
}

// Execute runs a statement that gives nothing back.
func (w *Writer) Execute(statement string) error {
	var result mapping.Result
	defer mapping.DestroyResult(&result)
	if mapping.Query(w.conn, statement, &result) == mapping.StateError {
		return &duckdb.Error{Type: duckdb.ErrorType(mapping.ResultErrorType(&result)), Msg: mapping.ResultError(&result)}
	}
	return nil
}

// Append appends rows to a table; put puts the values of the row with that number into the columns, at a place in each.
func (w *Writer) Append(table string, rows int, put func(row int, columns []Vector, at int)) (err error) {
	var appender mapping.Appender
	if mapping.AppenderCreateExt(w.conn, "", "", table, &appender) == mapping.StateError {
		err := problem(appender)
		mapping.AppenderDestroy(&appender)
		return err
	}
	defer func() {
		if err != nil { // what is left in it goes nowhere
			mapping.AppenderClear(appender)
		}
		if mapping.AppenderDestroy(&appender) == mapping.StateError && err == nil {
			err = fmt.Errorf("duckdb: append to %s: it was not closed", table)
		}
	}()
	types := make([]mapping.LogicalType, mapping.AppenderColumnCount(appender))
	for i := range types {
		types[i] = mapping.AppenderColumnType(appender, mapping.IdxT(i))
	}
	defer func() {
		for i := range types {
			mapping.DestroyLogicalType(&types[i])
		}
	}()
	chunk := mapping.CreateDataChunk(types)
	defer mapping.DestroyDataChunk(&chunk)
	defer w.room.empty()
	columns, most := make([]Vector, len(types)), int(mapping.VectorSize())
	for row := 0; row < rows; {
		mapping.DataChunkReset(chunk)
		for i := range columns {
			columns[i].begin(mapping.DataChunkGetVector(chunk, mapping.IdxT(i)), most, &w.room)
		}
		n := min(rows-row, most)
		for at := range n {
			put(row+at, columns, at)
		}
		mapping.DataChunkSetSize(chunk, mapping.IdxT(n))
		if mapping.AppendDataChunk(appender, chunk) == mapping.StateError {
			return problem(appender)
		}
		w.room.empty() // DuckDB has copied it
		row += n
	}
	if mapping.AppenderFlush(appender) == mapping.StateError {
		return problem(appender)
	}
	return nil
}

// problem is what an appender says went wrong.
func problem(appender mapping.Appender) error {
	said := mapping.AppenderErrorData(appender)
	defer mapping.DestroyErrorData(&said)
	return &duckdb.Error{Type: duckdb.ErrorType(mapping.ErrorDataErrorType(said)), Msg: mapping.ErrorDataMessage(said)}
}
