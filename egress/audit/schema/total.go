package schema

// Total is an aggregate of SQL: the sum of an expression over all rows of a group, or over those for which a condition holds ("" for all). It stays
// within its type whatever proxies claim, and is 0 where there is nothing to add up: least passes over NULL, which would make it the bound.
func Total(expression, condition string) string {
	sum := "sum(" + expression + ")"
	if condition != "" {
		sum += " FILTER (" + condition + ")"
	}
	return "least(coalesce(" + sum + ", 0), 18446744073709551615)::UBIGINT"
}
