package main

import (
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var words = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}

var schema = arrow.NewSchema([]arrow.Field{
	{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "d", Type: words, Nullable: true},
	{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
	{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
}, nil)

// writeBoth writes the rows that run.py expects as a file and as a stream.
func writeFiles(folder string) {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	// Both batches use the same dictionary, as arrow-go can't replace a dictionary in a file.
	check(builder.Field(4).(*array.BinaryDictionaryBuilder).InsertStringDictValues(dictionary()))
	appendRow(builder, 1, 1<<53+1, 0.5, "a", "x", []int32{1, 2}, true)
	for i := range schema.NumFields() {
		builder.Field(i).AppendNull()
	}
	first := builder.NewRecordBatch()
	check(builder.Field(4).(*array.BinaryDictionaryBuilder).InsertStringDictValues(dictionary()))
	appendRow(builder, -3, -1, -1.5, "ünï", "y", nil, false)
	second := builder.NewRecordBatch()

	file, err := os.Create(filepath.Join(folder, "go.arrow"))
	check(err)
	fileWriter, err := ipc.NewFileWriter(file, ipc.WithSchema(schema))
	check(err, fileWriter.Write(first), fileWriter.Write(second), fileWriter.Close(), file.Close())
	file, err = os.Create(filepath.Join(folder, "go.stream"))
	check(err)
	streamWriter := ipc.NewWriter(file, ipc.WithSchema(schema))
	check(streamWriter.Write(first), streamWriter.Write(second), streamWriter.Close(), file.Close())
}

func dictionary() *array.String {
	builder := array.NewStringBuilder(memory.DefaultAllocator)
	builder.AppendValues([]string{"x", "y"}, nil)
	return builder.NewStringArray()
}

func appendRow(builder *array.RecordBuilder, i int32, n int64, f float64, s, d string, l []int32, b bool) {
	builder.Field(0).(*array.Int32Builder).Append(i)
	builder.Field(1).(*array.Int64Builder).Append(n)
	builder.Field(2).(*array.Float64Builder).Append(f)
	builder.Field(3).(*array.StringBuilder).Append(s)
	check(builder.Field(4).(*array.BinaryDictionaryBuilder).AppendString(d))
	list := builder.Field(5).(*array.ListBuilder)
	list.Append(true)
	list.ValueBuilder().(*array.Int32Builder).AppendValues(l, nil)
	builder.Field(6).(*array.BooleanBuilder).Append(b)
}
