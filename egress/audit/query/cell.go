package query

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

// cell makes a value of DuckDB's driver one that JSON can hold without loss.
func cell(v any) any {
	switch v := v.(type) {
	case nil, bool, string:
		return v
	case int8, int16, int32, int64, int:
		n, _ := strconv.ParseInt(fmt.Sprint(v), 10, 64)
		return n
	case uint8, uint16, uint32, uint64, uint:
		n, _ := strconv.ParseUint(fmt.Sprint(v), 10, 64)
		return n
	case float32:
		return float(float64(v))
	case float64:
		return float(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case []byte:
		return hex.EncodeToString(v)
	case *big.Int:
		return json.Number(v.String())
	case duckdb.Decimal:
		return json.Number(v.String())
	case duckdb.UUID:
		return v.String()
	case duckdb.Interval:
		return fmt.Sprintf("%d months %d days %v", v.Months, v.Days, time.Duration(v.Micros)*time.Microsecond)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = cell(x)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, x := range v {
			out[key] = cell(x)
		}
		return out
	case duckdb.Map:
		out := make(map[string]any, len(v))
		for key, x := range v {
			out[fmt.Sprint(cell(key))] = cell(x)
		}
		return out
	default:
		return fmt.Sprint(v)
	}
}

// float keeps what JSON has no number for as text.
func float(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprint(f)
	}
	return f
}
