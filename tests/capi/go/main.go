package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// runGoroutines reads datasets and causes errors in many goroutines at once. Each must get its own results.
func runGoroutines(path string, count int) error {
	shared, err := Open(path)
	if err != nil {
		return err
	}
	rows, err := shared.Rows()
	if err != nil {
		return err
	}
	expected, err := shared.Sum(0)
	if err != nil {
		return err
	}
	failures := make(chan error, count)
	var group sync.WaitGroup
	for i := 0; i < count; i++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			failures <- useDataset(path, number, rows, expected, shared)
		}(i)
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	runtime.GC()
	fmt.Println(count, "goroutines: all as it should be")
	return nil
}

func useDataset(path string, number int, rows uint64, expected float64, shared *Dataset) error {
	missing := path + ".none." + strconv.Itoa(number)
	_, err := Open(missing)
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != 1 || !strings.Contains(failure.Message, missing) {
		return fmt.Errorf("goroutine %d: not the error of its own call: %v", number, err)
	}
	opened, err := Open(path)
	if err != nil {
		return err
	}
	for _, dataset := range []*Dataset{opened, shared} {
		if _, err = dataset.Int(rows, 0); !errors.As(err, &failure) || failure.Code != 7 {
			return fmt.Errorf("goroutine %d: no error for a row that is not there: %v", number, err)
		}
		sum, err := dataset.Sum(0)
		if err != nil || sum != expected {
			return fmt.Errorf("goroutine %d: %v instead of %v: %v", number, sum, expected, err)
		}
		var byHand int64
		if err := dataset.Ints(0, func(values []int64) {
			for _, value := range values {
				byHand += value
			}
		}); err != nil || float64(byHand) != expected {
			return fmt.Errorf("goroutine %d: %v by hand: %v", number, byHand, err)
		}
	}
	return nil
}

// follow prints the number of each new row of a table, until rowCount rows were printed.
func follow(path string, rowCount uint64) error {
	table, err := Open(path)
	if err != nil {
		return err
	}
	follower, err := table.Follow(0)
	if err != nil {
		return err
	}
	for seen := uint64(0); seen < rowCount; {
		rows, err := follower.Next(240000)
		if err != nil {
			return err
		}
		if rows == nil {
			return errors.New("no rows for four minutes")
		}
		count, err := rows.Rows()
		if err != nil {
			return err
		}
		for row := uint64(0); row < count; row++ {
			value, err := rows.Int(row, 0)
			if err != nil {
				return err
			}
			fmt.Println(value)
		}
		seen += count
	}
	return nil
}

func run(arguments []string) error {
	if len(arguments) != 3 {
		return errors.New("capi goroutines FILE COUNT, or capi follow TABLE ROWS")
	}
	number, err := strconv.Atoi(arguments[2])
	if err != nil {
		return err
	}
	if arguments[0] == "follow" {
		return follow(arguments[1], uint64(number))
	}
	return runGoroutines(arguments[1], number)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
