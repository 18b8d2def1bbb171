package query

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// mostCounted is how long a statement is at most that may be counted by numbers.
const mostCounted = 2000

// counted is a statement with the same answer as one that counts records by several columns of one part, as "the ten accounts with the most records" does: records are counted by the number of
// that part, and its texts are read for each number. DuckDB itself reads a single text by its number in a dictionary, and compares several of them for each record. What a statement does its own
// parser says (json_serialize_sql); one that does anything else stays as it is. some is false then.
func counted(ctx context.Context, conn *sql.Conn, statement string) (better string, some bool) {
	if lower := strings.ToLower(statement); len(statement) > mostCounted || !strings.Contains(lower, "count(") || !strings.Contains(lower, store.Table) || store.Rows(ctx, conn) < narrowFrom {
		return "", false
	}
	tree, err := parsed(ctx, conn, statement)
	if err != nil {
		return "", false
	}
	c := counting{columns: map[string]bool{}, aliases: map[string]bool{}}
	node := onlyNode(tree)
	if node == nil || !c.fits(node) {
		return "", false
	}
	columns := slices.Sorted(maps.Keys(c.columns))
	if len(columns) < 2 || !store.OfOnePart(columns...) {
		return "", false
	}
	list := strings.Join(columns, ", ")
	from, err := parsed(ctx, conn, "SELECT coalesce(CAST(sum("+countColumn+") AS BIGINT), 0) FROM (SELECT "+list+", records AS "+countColumn+" FROM "+store.Added(columns, 0, "true")+") AS "+store.Table)
	inner := onlyNode(from)
	if err != nil || inner == nil {
		return "", false
	}
	sums, _ := inner["select_list"].([]any)
	if len(sums) != 1 {
		return "", false
	}
	node["from_table"] = inner["from_table"]
	for _, key := range []string{"select_list", "modifiers"} {
		node[key] = replaceCounts(node[key], sums[0], key == "select_list")
	}
	text, err := json.Marshal(tree)
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT json_deserialize_sql(?::JSON)", string(text)).Scan(&better)
	}
	return better, err == nil
}

// countColumn has how many records a row stands for.
const countColumn = `"~records"`

// parsed is a statement as DuckDB's parser reads it.
func parsed(ctx context.Context, conn *sql.Conn, statement string) (tree map[string]any, err error) {
	var text string
	if err = conn.QueryRowContext(ctx, "SELECT json_serialize_sql(?::VARCHAR)::VARCHAR", statement).Scan(&text); err != nil {
		return nil, err
	}
	numbers := json.NewDecoder(strings.NewReader(text))
	numbers.UseNumber()
	return tree, numbers.Decode(&tree)
}

// onlyNode is the one statement of a tree; nil where there is none, or several.
func onlyNode(tree map[string]any) map[string]any {
	list, _ := tree["statements"].([]any)
	if len(list) != 1 {
		return nil
	}
	statement, _ := list[0].(map[string]any)
	node, _ := statement["node"].(map[string]any)
	return node
}

// counting looks through a statement.
type counting struct{ columns, aliases map[string]bool }

// fits says whether a SELECT counts records by columns, and does nothing else, and notes these.
func (c counting) fits(node map[string]any) bool {
	from, _ := node["from_table"].(map[string]any)
	ctes, _ := node["cte_map"].(map[string]any)
	sets, _ := node["group_sets"].([]any)
	if node["type"] != "SELECT_NODE" || !empty(ctes["map"]) || len(sets) > 1 || !empty(node["having"]) || !empty(node["qualify"]) || !empty(node["sample"]) ||
		from["type"] != "BASE_TABLE" || from["table_name"] != store.Table || !slices.Contains([]any{"", "main"}, from["schema_name"]) || !empty(from["alias"]) || !empty(from["catalog_name"]) ||
		!empty(from["sample"]) || !empty(from["column_name_alias"]) || !empty(from["at_clause"]) {
		return false
	}
	list, _ := node["select_list"].([]any)
	for _, item := range list {
		x, _ := item.(map[string]any)
		if x["class"] != "COLUMN_REF" && !isCount(x) || !c.reads(x) {
			return false
		}
		if alias, _ := x["alias"].(string); alias != "" {
			c.aliases[alias] = true
		}
	}
	groups, _ := node["group_expressions"].([]any)
	for _, group := range groups {
		if x, _ := group.(map[string]any); x["class"] != "COLUMN_REF" && x["class"] != "CONSTANT" || !c.reads(x) {
			return false
		}
	}
	if len(groups) == 0 && node["aggregate_handling"] != "FORCE_AGGREGATES" { // GROUP BY ALL
		return false
	}
	return c.reads(node["where_clause"]) && !counts(node["where_clause"]) && c.orders(node["modifiers"])
}

// orders looks through ORDER BY and LIMIT.
func (c counting) orders(modifiers any) bool {
	list, _ := modifiers.([]any)
	for _, modifier := range list {
		x, _ := modifier.(map[string]any)
		switch x["type"] {
		case "LIMIT_MODIFIER":
			if !c.reads(x["limit"]) || !c.reads(x["offset"]) {
				return false
			}
		case "ORDER_MODIFIER":
			orders, _ := x["orders"].([]any)
			for _, order := range orders {
				by, _ := order.(map[string]any)
				expression, _ := by["expression"].(map[string]any)
				if name := nameOf(expression); name != "" && c.aliases[name] {
					continue
				}
				if !c.reads(expression) {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

// compares are the functions that conditions may call: those behind LIKE and ILIKE.
var compares = []any{"~~", "!~~", "~~*", "!~~*", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape", "lower"}

// reads says whether an expression is made of columns of records, constants, counts and comparisons alone, and notes the columns.
func (c counting) reads(expression any) bool {
	switch x := expression.(type) {
	case nil:
		return true
	case []any:
		return !slices.ContainsFunc(x, func(item any) bool { return !c.reads(item) })
	case map[string]any:
		switch x["class"] {
		case "CONSTANT":
			return true
		case "COLUMN_REF":
			name := nameOf(x)
			c.columns[name] = true
			return slices.ContainsFunc(schema.Columns, func(column schema.Column) bool { return column.Name == name })
		case "FUNCTION":
			return isCount(x) || slices.Contains(compares, x["function_name"]) && empty(x["filter"]) && x["distinct"] != true && c.reads(x["children"])
		case "COMPARISON", "CONJUNCTION", "OPERATOR":
			return c.reads(x["left"]) && c.reads(x["right"]) && c.reads(x["children"])
		}
	}
	return false
}

// nameOf is the name of a column that is named alone; "" of any other expression.
func nameOf(x map[string]any) string {
	names, _ := x["column_names"].([]any)
	if x["class"] != "COLUMN_REF" || len(names) != 1 {
		return ""
	}
	name, _ := names[0].(string)
	return name
}

// isCount says whether an expression is count(*) of all rows.
func isCount(x map[string]any) bool {
	orders, _ := x["order_bys"].(map[string]any)
	return x["class"] == "FUNCTION" && x["function_name"] == "count_star" && empty(x["children"]) && empty(x["filter"]) && x["distinct"] != true && empty(orders["orders"])
}

// counts says whether there is a count in an expression.
func counts(expression any) bool {
	switch x := expression.(type) {
	case []any:
		return slices.ContainsFunc(x, counts)
	case map[string]any:
		if isCount(x) {
			return true
		}
		for _, part := range x {
			if counts(part) {
				return true
			}
		}
	}
	return false
}

// replaceCounts puts another expression in the place of counts; named says that they are columns of the answer, which keep their names.
func replaceCounts(expression, by any, named bool) any {
	switch x := expression.(type) {
	case []any:
		for i := range x {
			x[i] = replaceCounts(x[i], by, named)
		}
	case map[string]any:
		if isCount(x) {
			sum, _ := by.(map[string]any)
			sum = maps.Clone(sum)
			if sum["alias"] = x["alias"]; named && empty(x["alias"]) {
				sum["alias"] = "count_star()"
			}
			return sum
		}
		for key := range x {
			x[key] = replaceCounts(x[key], by, false)
		}
	}
	return expression
}

// empty says whether a place of the tree has nothing.
func empty(value any) bool {
	switch x := value.(type) {
	case nil:
		return true
	case string:
		return x == ""
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}
