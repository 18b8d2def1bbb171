package table

import (
	"testing"

	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

// TestNamesInTheLake: what is in the lake has a name there, and what is beside it has none, however alike their names are.
func TestNamesInTheLake(t *testing.T) {
	for lake, uris := range map[string]map[string]string{
		"/data/lake": {
			"file:///data/lake/_iceberg/a.b": "_iceberg/a.b", "/data/lake/_iceberg/a.b": "_iceberg/a.b", "file:///data/lake2/_iceberg/a.b": "", "/data/lake-old/x": "",
			"file:///data/lake/../secret": "", "file:///data/lake": "", "file:///data/lake/": "",
		},
		"s3://logs/egress?endpoint=http://127.0.0.1:1": {"s3://logs/egress/_iceberg/a.b": "_iceberg/a.b", "s3://logs/egress-old/_iceberg/a.b": "", "s3://logs/egress": ""},
		"s3://logs?endpoint=http://127.0.0.1:1":        {"s3://logs/_iceberg/a.b": "_iceberg/a.b", "s3://logs2/_iceberg/a.b": ""},
	} {
		at, err := place.Parse(lake, place.Access{})
		if err != nil {
			t.Fatal(err)
		}
		for uri, want := range uris {
			if name, err := (storage{t.Context(), at}).name(uri); name != want || (err == nil) != (want != "") {
				t.Errorf("%s in %s: %q (%v), want %q", uri, lake, name, err, want)
			}
		}
	}
}
