package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// in puts a text into so many brackets.
func in(opening, inner, closing string, n int) string {
	return strings.Repeat(opening, n) + inner + strings.Repeat(closing, n)
}

// chain is a WITH of so many tables, each made of the one before.
func chain(n int) string {
	b := strings.Builder{}
	b.WriteString("WITH t0 AS (SELECT 1 AS a)")
	for i := range n {
		fmt.Fprintf(&b, ", t%d AS (SELECT [a] AS a FROM t%d)", i+1, i)
	}
	fmt.Fprintf(&b, " SELECT a FROM t%d", n)
	return b.String()
}

// recursions are so many WITH RECURSIVE, each within the one before.
func recursions(n int) string {
	out := "SELECT 1"
	opening := strings.Builder{}
	closing := strings.Builder{}
	for i := range n {
		fmt.Fprintf(&opening, "(WITH RECURSIVE r%d AS ((", i)
		fmt.Fprintf(&closing, ") UNION ALL SELECT 1 FROM r%d) SELECT * FROM r%d)", n-1-i, n-1-i)
	}
	return "SELECT * FROM " + opening.String() + out + closing.String()
}

// deepJSON is an expression for arrays within each other, of so many.
func deepJSON(inner string, n int) string {
	return fmt.Sprintf("(repeat('[', %d) || '%s' || repeat(']', %d))", n, inner, n)
}

// deepStatements are nested as deep as nobody needs: in what is written, and in values that they make.
var deepStatements = map[string]string{
	"parentheses":     "SELECT " + in("(", "1", ")", 100_000),
	"operators":       "SELECT " + in("(1+", "1", ")", 60_000),
	"cases":           "SELECT " + in("CASE WHEN true THEN ", "1", " END", 8_000),
	"subqueries":      "SELECT * FROM " + in("(SELECT * FROM ", "records", ")", 12_000),
	"scalar queries":  "SELECT " + in("(SELECT ", "1", ")", 20_000),
	"exists":          "SELECT " + in("EXISTS(SELECT ", "1", ")", 12_000),
	"lists":           "SELECT " + in("[", "1", "]", 100_000),
	"structs":         "SELECT " + in("{'a':", "1", "}", 30_000),
	"lambdas":         "SELECT " + in("list_transform([1], lambda x: ", "1", ")", 6_000),
	"calls":           "SELECT " + in("abs(", "1", ")", 40_000),
	"named arguments": "SELECT " + in("union_value(a := ", "1", ")", 12_000),
	"signs":           "SELECT " + strings.Repeat("- ", 100_000) + "1",
	"nots":            "SELECT " + strings.Repeat("NOT ", 60_000) + "true",
	"sums":            "SELECT 1" + strings.Repeat("+1", 100_000),
	"ors":             "SELECT * FROM records WHERE false" + strings.Repeat(" OR port=1", 900),
	"texts":           "SELECT 'a'" + strings.Repeat("||'a'", 50_000),
	"casts":           "SELECT 1" + strings.Repeat("::INT", 50_000),
	"subscripts":      "SELECT [1]" + strings.Repeat("[1]", 80_000),
	"fields":          "SELECT {'a':1}" + strings.Repeat(".a", 100_000),
	"types":           "SELECT NULL::INT" + strings.Repeat("[]", 120_000),
	"typed calls":     "SELECT list_contains(NULL::INT" + strings.Repeat("[]", 120_000) + ", 1)",
	"types of types":  "SELECT NULL::" + in("STRUCT(a ", "INT", ")", 25_000),
	"members":         "SELECT 1 IN (" + strings.Repeat("1,", 20_000) + "1)",
	"unions":          "SELECT 1" + strings.Repeat(" UNION SELECT 1", 1_500),
	"all unions":      "SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 1_500),
	"brackets unions": in("(", "SELECT 1", " UNION SELECT 1)", 14_000),
	"tables":          "SELECT 1 FROM (SELECT 1) t0" + strings.Repeat(", (SELECT 1)", 20_000),
	"joins":           "SELECT 1 FROM (SELECT 1)" + strings.Repeat(" JOIN (SELECT 1) ON true", 10_000),
	"bracketed joins": "SELECT 1 FROM " + in("(", "(SELECT 1)", " CROSS JOIN (SELECT 1))", 9_000),
	"tables of one":   chain(6_000),
	"recursions":      recursions(3_000),
	"comments":        "SELECT " + strings.Repeat("/* ", 80_000) + "1",
	"comments ended":  "SELECT " + in("/*", " ", "*/", 2_000) + " 1",
	"window":          "SELECT sum(1) OVER (ORDER BY " + in("(", "1", ")", 100_000) + ")",
	"columns":         "SELECT " + strings.Repeat("1,", 3_000) + "1",
	"pivot":           "FROM " + in("(PIVOT ", "(SELECT 1 a)", " ON a)", 10_000),
	"values of text":  "SELECT " + deepJSON("", 1_000_000) + "::INT[]",
	"times":           "SELECT CAST(repeat('1992-02-02 ', 100000) AS TIMESTAMP)",

	"json_structure":     "SELECT json_structure(" + deepJSON("1", 300_000) + ")",
	"json_contains":      "SELECT json_contains(" + deepJSON("1", 1_000_000) + ", '2')",
	"json_contains deep": "SELECT json_contains(" + deepJSON("1", 1_000_000) + ", " + deepJSON("2", 1_000_000) + ")",
	"json_transform":     "SELECT json_transform('[]', " + deepJSON(`"INT"`, 1_000_000) + ")",
	"json_merge_patch":   `SELECT length(json_merge_patch(repeat('{"a":', 100000) || '1' || repeat('}', 100000), repeat('{"a":', 100000) || '2' || repeat('}', 100000)))`,
	"json_serialize_sql": "SELECT json_serialize_sql('SELECT ' || repeat('(', 100000) || '1' || repeat(')', 100000))",
	"json paths":         "SELECT json_extract('{}', '$' || repeat('.a', 1000000))",
	"variant of JSON":    "SELECT " + deepJSON("1", 200_000) + "::JSON::VARIANT IS NULL",
	"variant":            "WITH RECURSIVE t(d, v) AS (SELECT 0, [1]::VARIANT UNION ALL SELECT d+1, [v]::VARIANT FROM t WHERE d < 2000) SELECT v FROM t WHERE d = 2000",
	"query":              "FROM query('SELECT ' || repeat('(', 1000000) || '1' || repeat(')', 1000000))",
	"query of types":     "FROM query('SELECT NULL::INT' || repeat('[]', 1000000))",

	"like":        "SELECT repeat('a', 1000000) LIKE repeat('%a', 500000) || host FROM records",
	"not like":    "SELECT count(*) FROM records WHERE repeat('a', 1000000) || host NOT LIKE repeat('%a', 500000) || host",
	"ilike":       "SELECT repeat('a', 1000000) ILIKE repeat('%a', 500000) || host FROM records",
	"glob":        "SELECT repeat('a', 1000000) GLOB repeat('*a', 500000) || host FROM records",
	"like_escape": "SELECT like_escape(repeat('a', 500000), repeat('%a', 500000), '')",
	"tried":       "SELECT count(*) FROM range(10) t(i) WHERE TRY(repeat('a', 500000) || i LIKE repeat('%a', 500000) || i) IS NULL",
	"regex":       "SELECT regexp_matches('a', repeat('(', 100000) || 'a' || repeat(')', 100000))",
	"similar":     "SELECT 'a' SIMILAR TO repeat('(', 100000) || 'a' || repeat(')', 100000)",
	"repeats":     "SELECT regexp_matches('a', repeat('(', 1000) || 'a' || repeat('{1,9})', 1000))",
}

// TestDeepStatementsEndWithWords: however deep a statement is nested, and the values that it makes, it has an answer or an error, and the server goes on.
func TestDeepStatementsEndWithWords(t *testing.T) {
	s := filledStore(t, store.Options{}, sample()...)
	for name, statement := range deepStatements {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			err := SQL(t.Context(), s.DB(), statement, &result{})
			t.Logf("%v: %.200v", time.Since(began).Round(time.Millisecond), err)
			if wrong := (StatementError{}); err != nil && !errors.As(err, &wrong) {
				t.Error(err)
			}
			if err != nil && strings.Contains(err.Error(), "bad_alloc") {
				t.Errorf("not in words: %v", err)
			}
		})
	}
	t.Run("at a time, and again", func(t *testing.T) { // what one of them ends leaves the others, and nothing behind
		var group errgroup.Group
		for _, name := range []string{"like", "json_contains", "variant of JSON"} {
			group.Go(func() error {
				for range 2 {
					if err := SQL(t.Context(), s.DB(), deepStatements[name], &result{}); err == nil || !strings.Contains(err.Error(), "nested too deep") {
						return fmt.Errorf("%s: %w", name, err)
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("a fault of a Go program is its own", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("there was none")
			}
		}()
		var nobody *result
		nobody.names = nil
	})
	if err := s.Store(t.Context(), []record.Record{rec(1_000, nil)}); err != nil {
		t.Error(err)
	}
	var got result
	if err := SQL(t.Context(), s.DB(), "SELECT count(*) FROM records", &got); err != nil || len(got.rows) != 1 {
		t.Errorf("afterwards: %v, %v", got.rows, err)
	}
}
