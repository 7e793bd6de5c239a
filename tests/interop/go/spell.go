package main

import (
	"encoding/hex"
	"fmt"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// spell returns a cell in the spelling that examples/samples/main.rs defines.
func spell(column arrow.Array, row int) any {
	if column.IsNull(row) {
		return nil
	}
	switch a := column.(type) {
	case *array.Null:
		return nil
	case *array.Boolean:
		return a.Value(row)
	case *array.Float16:
		return float64(a.Value(row).Float32())
	case *array.Float32:
		return float64(a.Value(row))
	case *array.Float64:
		return a.Value(row)
	case *array.String:
		return a.Value(row)
	case *array.LargeString:
		return a.Value(row)
	case *array.StringView:
		return a.Value(row)
	case *array.Binary:
		return toHex(a.Value(row))
	case *array.LargeBinary:
		return toHex(a.Value(row))
	case *array.BinaryView:
		return toHex(a.Value(row))
	case *array.FixedSizeBinary:
		return toHex(a.Value(row))
	case *array.Dictionary:
		return spell(a.Dictionary(), a.GetValueIndex(row))
	case *array.RunEndEncoded:
		return spell(a.Values(), a.GetPhysicalIndex(row))
	case array.ExtensionArray:
		return spell(a.Storage(), row)
	}
	if number, ok := spellInteger(column, row); ok {
		return number
	}
	if moment, ok := spellTemporal(column, row); ok {
		return moment
	}
	if number, ok := spellDecimal(column, row); ok {
		return number
	}
	return spellNested(column, row)
}

func toHex(bytes []byte) string { return "0x" + hex.EncodeToString(bytes) }

func spellInteger(column arrow.Array, row int) (string, bool) {
	switch a := column.(type) {
	case *array.Int8:
		return fmt.Sprint(a.Value(row)), true
	case *array.Int16:
		return fmt.Sprint(a.Value(row)), true
	case *array.Int32:
		return fmt.Sprint(a.Value(row)), true
	case *array.Int64:
		return fmt.Sprint(a.Value(row)), true
	case *array.Uint8:
		return fmt.Sprint(a.Value(row)), true
	case *array.Uint16:
		return fmt.Sprint(a.Value(row)), true
	case *array.Uint32:
		return fmt.Sprint(a.Value(row)), true
	case *array.Uint64:
		return fmt.Sprint(a.Value(row)), true
	}
	return "", false
}

func spellTemporal(column arrow.Array, row int) (string, bool) {
	switch a := column.(type) {
	case *array.Date32:
		return fmt.Sprintf("date %d", int32(a.Value(row))), true
	case *array.Date64:
		return fmt.Sprintf("date %d", int64(a.Value(row))/86_400_000), true
	case *array.Time32:
		return fmt.Sprintf("time %d%s", int32(a.Value(row)), a.DataType().(*arrow.Time32Type).Unit), true
	case *array.Time64:
		return fmt.Sprintf("time %d%s", int64(a.Value(row)), a.DataType().(*arrow.Time64Type).Unit), true
	case *array.Duration:
		return fmt.Sprintf("duration %d%s", int64(a.Value(row)), a.DataType().(*arrow.DurationType).Unit), true
	case *array.Timestamp:
		timestampType := a.DataType().(*arrow.TimestampType)
		text := fmt.Sprintf("timestamp %d%s", int64(a.Value(row)), timestampType.Unit)
		if timestampType.TimeZone != "" {
			text += " " + timestampType.TimeZone
		}
		return text, true
	case *array.MonthInterval:
		return fmt.Sprintf("interval %d 0 0", int32(a.Value(row))), true
	case *array.DayTimeInterval:
		value := a.Value(row)
		return fmt.Sprintf("interval 0 %d %d", value.Days, int64(value.Milliseconds)*1_000_000), true
	case *array.MonthDayNanoInterval:
		value := a.Value(row)
		return fmt.Sprintf("interval %d %d %d", value.Months, value.Days, value.Nanoseconds), true
	}
	return "", false
}

func spellDecimal(column arrow.Array, row int) (string, bool) {
	var digits *big.Int
	switch a := column.(type) {
	case *array.Decimal32:
		digits = big.NewInt(int64(a.Value(row)))
	case *array.Decimal64:
		digits = big.NewInt(int64(a.Value(row)))
	case *array.Decimal128:
		digits = a.Value(row).BigInt()
	case *array.Decimal256:
		digits = a.Value(row).BigInt()
	default:
		return "", false
	}
	return fmt.Sprintf("%se-%d", digits, column.DataType().(arrow.DecimalType).GetScale()), true
}

func spellNested(column arrow.Array, row int) any {
	switch a := column.(type) {
	case *array.Map:
		start, end := a.ValueOffsets(row)
		pairs := []any{}
		for i := int(start); i < int(end); i++ {
			pairs = append(pairs, []any{spell(a.Keys(), i), spell(a.Items(), i)})
		}
		return pairs
	case array.ListLike:
		start, end := a.ValueOffsets(row)
		items := []any{}
		for i := int(start); i < int(end); i++ {
			items = append(items, spell(a.ListValues(), i))
		}
		return items
	case *array.Struct:
		members := map[string]any{}
		for i, field := range a.DataType().(*arrow.StructType).Fields() {
			members[field.Name] = spell(a.Field(i), row)
		}
		return members
	case *array.SparseUnion:
		return spellMember(a, row, row)
	case *array.DenseUnion:
		return spellMember(a, row, int(a.ValueOffset(row)))
	}
	panic(fmt.Sprintf("%s: not known to spell.go", column.DataType()))
}

func spellMember(union array.Union, row, childRow int) any {
	child := union.ChildID(row)
	name := union.DataType().(arrow.UnionType).Fields()[child].Name
	return map[string]any{name: spell(union.Field(child), childRow)}
}
