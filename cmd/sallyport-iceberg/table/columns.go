package table

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/sallyport/sallyport/egress/audit/lake/content"
)

// partitions are the columns that files have in their folders' names, and the table is partitioned by.
var partitions = []iceberg.NestedField{
	{Name: "region", Type: iceberg.PrimitiveTypes.String},
	{Name: "cluster", Type: iceberg.PrimitiveTypes.String},
	{Name: "day", Type: iceberg.PrimitiveTypes.Date},
}

// ofTime is the column by whose bounds readers leave files out.
const ofTime = "time_dt"

// types are DuckDB's, and Iceberg's for them.
var types = map[string]iceberg.Type{
	"INTEGER": iceberg.PrimitiveTypes.Int32, "BIGINT": iceberg.PrimitiveTypes.Int64, "VARCHAR": iceberg.PrimitiveTypes.String, "BOOLEAN": iceberg.PrimitiveTypes.Bool,
	"TIMESTAMP WITH TIME ZONE": iceberg.PrimitiveTypes.TimestampTz,
}

// schemaOf is that of columns, and of partitions. The ids are for the catalog to replace.
func schemaOf(columns []content.Column) *iceberg.Schema {
	id := 0
	next := func() int { id++; return id }
	fields := fieldsOf(columns, next)
	for _, f := range partitions {
		f.ID = next()
		fields = append(fields, f)
	}
	return iceberg.NewSchema(0, fields...)
}

func fieldsOf(columns []content.Column, next func() int) (fields []iceberg.NestedField) {
	for i := range columns {
		fields = append(fields, iceberg.NestedField{ID: next(), Name: columns[i].Name, Type: typeOf(&columns[i], next)})
	}
	return fields
}

func typeOf(c *content.Column, next func() int) iceberg.Type {
	t := types[c.Type]
	if len(c.Fields) > 0 {
		t = &iceberg.StructType{FieldList: fieldsOf(c.Fields, next)}
	}
	if c.List {
		t = &iceberg.ListType{ElementID: next(), Element: t}
	}
	return t
}

// specOf partitions by folders.
func specOf(s *iceberg.Schema) (iceberg.PartitionSpec, error) {
	var options []iceberg.PartitionOption
	for i, f := range partitions {
		id := iceberg.PartitionDataIDStart + i
		options = append(options, iceberg.AddPartitionFieldByName(f.Name, f.Name, iceberg.IdentityTransform{}, s, &id))
	}
	return iceberg.NewPartitionSpecOpts(options...)
}

// missing are the columns that a table has not, with the path of what each is in. A column of another type is an error.
func missing(there []iceberg.NestedField, wanted []iceberg.NestedField, path ...string) (add map[string]iceberg.NestedField, order [][]string, err error) {
	add = map[string]iceberg.NestedField{}
	for _, w := range wanted {
		at := append(slices.Clone(path), w.Name)
		i := slices.IndexFunc(there, func(f iceberg.NestedField) bool { return f.Name == w.Name })
		if i < 0 {
			add[fmt.Sprint(at)] = w
			order = append(order, at)
			continue
		}
		inner, structs := there[i].Type.(*iceberg.StructType)
		if want, is := w.Type.(*iceberg.StructType); is && structs {
			more, names, err := missing(inner.FieldList, want.FieldList, at...)
			if err != nil {
				return nil, nil, err
			}
			for k, v := range more {
				add[k] = v
			}
			order = append(order, names...)
		} else if there[i].Type.Type() != w.Type.Type() {
			return nil, nil, fmt.Errorf("its column %v is of type %s, not %s: give another --table, or drop this one", at, there[i].Type, w.Type)
		}
	}
	return add, order, nil
}

// evolve adds the columns that a table has not, and says by which names files have them. It is true where there was something to do.
func evolve(t *table.Table, columns []content.Column) (tx *table.Transaction, changed bool, err error) {
	add, order, err := missing(t.Schema().Fields(), schemaOf(columns).Fields())
	if err != nil {
		return nil, false, err
	}
	tx = t.NewTransaction()
	if len(order) > 0 {
		update := tx.UpdateSchema(true, false)
		for _, at := range order {
			update = update.AddColumn(at, add[fmt.Sprint(at)].Type, "", false, nil)
		}
		return tx, true, update.Commit()
	}
	names, err := json.Marshal(t.Schema().NameMapping())
	if err != nil {
		return nil, false, err
	}
	want := iceberg.Properties{
		table.DefaultNameMappingKey: string(names), // files have no ids
		table.CommitNumRetriesKey:   "0",           // what fails is looked at again from the start
	}
	for key, value := range want {
		if t.Properties()[key] != value {
			changed = true
		}
	}
	if changed {
		err = tx.SetProperties(want)
	}
	return tx, changed, err
}
