package query

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

// mostValue is how many bytes a value of an answer may have, as text. It is asked of DuckDB, which counts what it takes of memory, before the value is copied:
// a list of small numbers is thirty times as large here as there.
const mostValue = 3 << 20

// valueTooLarge is said of a larger one.
const valueTooLarge = "a value of the answer has more than 3 MiB: ask for less of it, such as left(url_path, 1000)"

// fixed are the types whose values are all small.
var fixed = map[duckdb.Type]bool{
	duckdb.TYPE_BOOLEAN: true, duckdb.TYPE_TINYINT: true, duckdb.TYPE_SMALLINT: true, duckdb.TYPE_INTEGER: true, duckdb.TYPE_BIGINT: true,
	duckdb.TYPE_UTINYINT: true, duckdb.TYPE_USMALLINT: true, duckdb.TYPE_UINTEGER: true, duckdb.TYPE_UBIGINT: true, duckdb.TYPE_FLOAT: true, duckdb.TYPE_DOUBLE: true,
	duckdb.TYPE_TIMESTAMP: true, duckdb.TYPE_TIMESTAMP_S: true, duckdb.TYPE_TIMESTAMP_MS: true, duckdb.TYPE_TIMESTAMP_NS: true, duckdb.TYPE_TIMESTAMP_TZ: true,
	duckdb.TYPE_DATE: true, duckdb.TYPE_TIME: true, duckdb.TYPE_TIME_TZ: true, duckdb.TYPE_INTERVAL: true, duckdb.TYPE_HUGEINT: true, duckdb.TYPE_UHUGEINT: true,
	duckdb.TYPE_DECIMAL: true, duckdb.TYPE_UUID: true, duckdb.TYPE_ENUM: true, duckdb.TYPE_SQLNULL: true,
}

// measured is a statement with the same answer that fails where one of its values is too large. What of the statement cannot stand in another one, a comment
// or a semicolon at its end, is left out by DuckDB itself.
func measured(ctx context.Context, conn *sql.Conn, statement string, columns []answered) (string, error) {
	var names, values []string
	all := true
	for i, c := range columns {
		name := fmt.Sprint("c", i)
		value, octets := name, ""
		switch {
		case fixed[c.kind]:
		case c.kind == duckdb.TYPE_VARCHAR:
			octets = "strlen(" + name + ")"
		case c.kind == duckdb.TYPE_BLOB:
			octets = "octet_length(" + name + ")"
		default:
			octets = "strlen(CAST(" + name + " AS VARCHAR))"
		}
		if octets != "" {
			all = false
			value = fmt.Sprintf("CASE WHEN %s > %d THEN error(%s) ELSE %s END", octets, mostValue, Literal(valueTooLarge), name)
		}
		names, values = append(names, name), append(values, value+" AS "+identifier(c.name))
	}
	if all {
		return statement, nil
	}
	around := func(statement string) string {
		return "SELECT " + strings.Join(values, ", ") + " FROM (" + statement + "\n) AS answer(" + strings.Join(names, ", ") + ")"
	}
	if out := around(strings.TrimRight(statement, "; \t\r\n")); isStatement(conn, out) {
		return out, nil
	}
	var plain sql.NullString
	err := conn.QueryRowContext(ctx, "SELECT json_deserialize_sql(json_serialize_sql(?::VARCHAR))", statement).Scan(&plain)
	if out := around(plain.String); err == nil && isStatement(conn, out) {
		return out, nil
	}
	return "", StatementError{errors.New("it cannot stand in brackets: write it as one SELECT, with nothing behind it")}
}

// isStatement says whether DuckDB takes a statement.
func isStatement(conn *sql.Conn, statement string) bool {
	return conn.Raw(func(raw any) error {
		prepared, err := raw.(driver.Conn).Prepare(statement)
		if err != nil {
			return err
		}
		return prepared.Close()
	}) == nil
}

// identifier writes the name of a column as SQL.
func identifier(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// tooLarge says in words what measured has DuckDB say.
func tooLarge(err error) error {
	if wrong := (StatementError{}); errors.As(err, &wrong) && strings.Contains(err.Error(), valueTooLarge) {
		return StatementError{errors.New(valueTooLarge)}
	}
	return err
}
