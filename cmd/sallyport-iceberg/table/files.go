package table

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

// inTable are the lake's files in a table's current snapshot, by their names there. Files of elsewhere are not the lake's, and stay.
func inTable(t *table.Table, s storage) (map[string]iceberg.DataFile, error) {
	files := map[string]iceberg.DataFile{}
	snapshot := t.CurrentSnapshot()
	if snapshot == nil {
		return files, nil
	}
	manifests, err := snapshot.Manifests(s)
	if err != nil {
		return nil, err
	}
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		for entry, err := range m.Entries(s, true) {
			if err != nil {
				return nil, err
			}
			if name, err := s.name(entry.DataFile().FilePath()); err == nil && strings.HasPrefix(name, dataFolders) {
				files[name] = entry.DataFile()
			}
		}
	}
	return files, nil
}

// dataFile is a file of the lake as manifests name it. All that is said of it is in the lake's log: the file is not opened.
func dataFile(t *table.Table, at place.Place, f *content.File) (iceberg.DataFile, error) {
	values, err := partitionOf(t.Spec(), f.Partition())
	if err != nil {
		return nil, err
	}
	days := map[int]string{}
	for id, v := range values {
		if _, is := v.(iceberg.Date); is {
			days[id] = "date"
		}
	}
	b, err := iceberg.NewDataFileBuilder(t.Spec(), iceberg.EntryContentData, at.URI(f.Name), iceberg.ParquetFile, values, days, nil, f.Records, f.Bytes)
	if err != nil {
		return nil, err
	}
	column, there := t.Schema().FindFieldByName(ofTime)
	if !there {
		return nil, fmt.Errorf("the table has no column %s", ofTime)
	}
	first, err := bound(f.First)
	if err != nil {
		return nil, err
	}
	last, err := bound(f.Last)
	if err != nil {
		return nil, err
	}
	return b.LowerBoundValues(map[int][]byte{column.ID: first}).UpperBoundValues(map[int][]byte{column.ID: last}).Build(), nil
}

func bound(t time.Time) ([]byte, error) {
	return iceberg.TimestampLiteral(t.UnixMicro()).MarshalBinary()
}

// partitionOf reads region=R/cluster=C/day=D.
func partitionOf(spec iceberg.PartitionSpec, folder string) (map[int]any, error) {
	said := map[string]string{}
	for part := range strings.SplitSeq(folder, "/") {
		name, value, _ := strings.Cut(part, "=")
		said[name] = value
	}
	values := map[int]any{}
	for _, f := range spec.Fields() {
		value, there := said[f.Name]
		if !there {
			return nil, fmt.Errorf("%s says nothing of %s, by which the table is partitioned: give another --table, or drop this one", folder, f.Name)
		}
		values[f.FieldID] = value
		if f.Name == "day" {
			day, err := time.Parse(time.DateOnly, value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", folder, err)
			}
			values[f.FieldID] = iceberg.Date(day.Unix() / 86400)
		}
	}
	return values, nil
}
