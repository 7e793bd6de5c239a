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

// Opens the last segment of a table that is being written until the time is over, and checks its rows.
func live(folder string, seconds float64) {
	said := struct {
		Opens      int      `json:"opens"`
		Rows       int      `json:"rows"`
		Wrong      int      `json:"wrong"`
		Complaints []string `json:"complaints"`
	}{Complaints: []string{}}
	most := map[string]int{}
	for deadline := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(deadline); {
		name, rows, err := look(folder)
		said.Opens++
		said.Rows += rows
		if err == nil && rows < most[name] {
			err = fmt.Errorf("%s: %d rows after %d", name, rows, most[name])
		}
		if err != nil {
			said.Wrong++
			said.Complaints = append(said.Complaints[:min(4, len(said.Complaints))], err.Error())
		}
		most[name] = max(most[name], rows)
	}
	json.NewEncoder(os.Stdout).Encode(said)
}

func look(folder string) (name string, rows int, err error) {
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
	for i := 0; i < reader.NumRecords(); i++ {
		batch, err := reader.RecordBatchAt(i)
		if err != nil {
			return name, rows, err
		}
		for at := 0; at < int(batch.NumRows()); at++ {
			if wrong := complaint(batch, at, first+rows+at); wrong != "" {
				return name, rows, fmt.Errorf("%s, row %d: %s", name, first+rows+at, wrong)
			}
		}
		rows += int(batch.NumRows())
	}
	return name, rows, nil
}

func complaint(batch arrow.RecordBatch, at, i int) string {
	near := i % period
	if got := batch.Column(0).(*array.Int64).Value(at); got != int64(i) {
		return fmt.Sprintf("row %d", got)
	}
	if got := batch.Column(1).(*array.Timestamp).Value(at); int64(got) != int64(start+i/3*10) {
		return fmt.Sprintf("ts %d", got)
	}
	symbols := batch.Column(2).(*array.Dictionary)
	if got := symbols.Dictionary().(*array.String).Value(symbols.GetValueIndex(at)); got != "S"+strconv.Itoa(near/16) {
		return "symbol " + got
	}
	prices := batch.Column(3).(*array.Float64)
	if prices.IsNull(at) != (i%10 == 3) || prices.IsValid(at) && prices.Value(at) != float64(i)*0.25 {
		return fmt.Sprintf("price %v", prices.Value(at))
	}
	texts := batch.Column(4).(*array.String)
	if texts.IsNull(at) != (near%13 == 5) {
		return "text is null or not"
	}
	if texts.IsValid(at) && texts.Value(at) != strings.Repeat(strconv.FormatInt(int64(near), 16), near%4) {
		return "text " + texts.Value(at)
	}
	return badList(batch.Column(5).(*array.List), at, near)
}

func badList(lists *array.List, at, near int) string {
	if lists.IsNull(at) != (near%17 == 3) {
		return "list is null or not"
	}
	if lists.IsNull(at) {
		return ""
	}
	from, to := lists.ValueOffsets(at)
	items := lists.ListValues().(*array.Int32)
	if to-from != int64(near%5) {
		return fmt.Sprintf("list of %d", to-from)
	}
	for k := from; k < to; k++ {
		if items.Value(int(k)) != int32(near)+int32(k-from) {
			return fmt.Sprintf("item %d", items.Value(int(k)))
		}
	}
	return ""
}
