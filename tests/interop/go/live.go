package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// The rows that tests/live/rows.py defines.
const (
	period = 1 << 14
	start  = 1_700_000_000_000_000
)

// checkGrowingTable opens the newest segment of a table again and again, and checks its rows.
func checkGrowingTable(folder string, seconds float64) {
	figures := struct {
		Opens      int      `json:"opens"`
		Rows       int      `json:"rows"`
		Wrong      int      `json:"wrong"`
		Complaints []string `json:"complaints"`
	}{Complaints: []string{}}
	rowCounts := map[string]int{}
	for deadline := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(deadline); {
		name, rows, err := checkSegment(folder)
		figures.Opens++
		figures.Rows += rows
		if err == nil && rows < rowCounts[name] {
			err = fmt.Errorf("%s: %d rows after %d", name, rows, rowCounts[name])
		}
		if err != nil {
			figures.Wrong++
			figures.Complaints = append(figures.Complaints[:min(4, len(figures.Complaints))], err.Error())
		}
		rowCounts[name] = max(rowCounts[name], rows)
	}
	json.NewEncoder(os.Stdout).Encode(figures)
}

func checkSegment(folder string) (name string, rows int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: panic: %v", name, r)
		}
	}()
	names, err := filepath.Glob(filepath.Join(folder, "*.arrow"))
	if err != nil || len(names) == 0 {
		return "", 0, fmt.Errorf("no segments: %w", err)
	}
	path := slices.Max(names)
	name = filepath.Base(path)
	first, _ := strconv.Atoi(strings.TrimSuffix(name, ".arrow"))
	file, err := os.Open(path)
	if err != nil {
		return name, 0, err
	}
	defer file.Close()
	reader, err := ipc.NewFileReader(file)
	if err != nil {
		return name, 0, err
	}
	defer reader.Close()
	for index := 0; index < reader.NumRecords(); index++ {
		batch, err := reader.RecordBatchAt(index)
		if err != nil {
			return name, rows, err
		}
		for row := 0; row < int(batch.NumRows()); row++ {
			if difference := describeDifference(batch, row, first+rows+row); difference != "" {
				return name, rows, fmt.Errorf("%s, row %d: %s", name, first+rows+row, difference)
			}
		}
		rows += int(batch.NumRows())
	}
	return name, rows, nil
}

func describeDifference(batch arrow.RecordBatch, row, number int) string {
	periodic := number % period
	if actual := batch.Column(0).(*array.Int64).Value(row); actual != int64(number) {
		return fmt.Sprintf("row %d", actual)
	}
	if actual := batch.Column(1).(*array.Timestamp).Value(row); int64(actual) != int64(start+number/3*10) {
		return fmt.Sprintf("ts %d", actual)
	}
	symbols := batch.Column(2).(*array.Dictionary)
	if actual := symbols.Dictionary().(*array.String).Value(symbols.GetValueIndex(row)); actual != "S"+strconv.Itoa(periodic/16) {
		return "symbol " + actual
	}
	prices := batch.Column(3).(*array.Float64)
	if prices.IsNull(row) != (number%10 == 3) || prices.IsValid(row) && prices.Value(row) != float64(number)*0.25 {
		return fmt.Sprintf("price %v", prices.Value(row))
	}
	texts := batch.Column(4).(*array.String)
	if texts.IsNull(row) != (periodic%13 == 5) {
		return "text is null or not"
	}
	if texts.IsValid(row) && texts.Value(row) != strings.Repeat(strconv.FormatInt(int64(periodic), 16), periodic%4) {
		return "text " + texts.Value(row)
	}
	return describeListDifference(batch.Column(5).(*array.List), row, periodic)
}

func describeListDifference(lists *array.List, row, periodic int) string {
	if lists.IsNull(row) != (periodic%17 == 3) {
		return "list is null or not"
	}
	if lists.IsNull(row) {
		return ""
	}
	from, to := lists.ValueOffsets(row)
	items := lists.ListValues().(*array.Int32)
	if to-from != int64(periodic%5) {
		return fmt.Sprintf("list of %d", to-from)
	}
	for k := from; k < to; k++ {
		if items.Value(int(k)) != int32(periodic)+int32(k-from) {
			return fmt.Sprintf("item %d", items.Value(int(k)))
		}
	}
	return ""
}
