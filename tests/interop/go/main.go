// Reads and writes Arrow with arrow-go for run.py: `read FOLDER` or `write FOLDER`; `live` for tests/live/live.py; `flight
// HOST:PORT` for clients.py.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "live" {
		seconds, err := strconv.ParseFloat(os.Args[3], 64)
		if err != nil {
			panic(err)
		}
		checkGrowingTable(os.Args[2], seconds)
		return
	}
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "read FOLDER, write FOLDER, live FOLDER SECONDS, or flight HOST:PORT")
		os.Exit(2)
	}
	if os.Args[1] == "flight" {
		check(runFlightSteps(os.Args[2]))
		return
	}
	if os.Args[1] == "write" {
		writeFiles(os.Args[2])
		return
	}
	entries, err := os.ReadDir(os.Args[2])
	if err != nil {
		panic(err)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	out := json.NewEncoder(os.Stdout)
	for _, entry := range entries {
		if ending := filepath.Ext(entry.Name()); ending == ".arrow" || ending == ".stream" {
			out.Encode(readFile(filepath.Join(os.Args[2], entry.Name())))
		}
	}
}

func readFile(path string) map[string]any {
	rows, err := readRows(path)
	if err != nil {
		return map[string]any{"file": filepath.Base(path), "error": err.Error()}
	}
	return map[string]any{"file": filepath.Base(path), "rows": rows}
}

func readRows(path string) (rows [][]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows = [][]any{}
	err = forEachBatch(data, strings.HasSuffix(path, ".stream"), func(batch arrow.RecordBatch) {
		for row := 0; row < int(batch.NumRows()); row++ {
			cells := []any{}
			for _, column := range batch.Columns() {
				cells = append(cells, spell(column, row))
			}
			rows = append(rows, cells)
		}
	})
	return rows, err
}

func forEachBatch(data []byte, isStream bool, use func(arrow.RecordBatch)) error {
	if isStream {
		reader, err := ipc.NewReader(bytes.NewReader(data))
		if err != nil {
			return err
		}
		defer reader.Release()
		for reader.Next() {
			use(reader.RecordBatch())
		}
		return reader.Err()
	}
	reader, err := ipc.NewFileReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer reader.Close()
	for i := 0; i < reader.NumRecords(); i++ {
		batch, err := reader.RecordBatchAt(i)
		if err != nil {
			return err
		}
		use(batch)
		batch.Release()
	}
	return nil
}

func check(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
}
