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

// goroutines opens, asks and fails in count goroutines at once: each must get its own answer.
func goroutines(path string, count int) error {
	whole, err := Open(path)
	if err != nil {
		return err
	}
	rows, err := whole.Rows()
	if err != nil {
		return err
	}
	expected, err := whole.Sum(0)
	if err != nil {
		return err
	}
	wrong := make(chan error, count)
	var group sync.WaitGroup
	for i := 0; i < count; i++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			wrong <- one(path, number, rows, expected, whole)
		}(i)
	}
	group.Wait()
	close(wrong)
	for err := range wrong {
		if err != nil {
			return err
		}
	}
	runtime.GC()
	fmt.Println(count, "goroutines: all as it should be")
	return nil
}

func one(path string, number int, rows uint64, expected float64, whole *Dataset) error {
	missing := path + ".none." + strconv.Itoa(number)
	_, err := Open(missing)
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != 1 || !strings.Contains(failure.Message, missing) {
		return fmt.Errorf("goroutine %d: not the error of its own call: %v", number, err)
	}
	own, err := Open(path)
	if err != nil {
		return err
	}
	for _, dataset := range []*Dataset{own, whole} {
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

// follow prints the number of each row of a table as it comes, until there were as many as wanted.
func follow(path string, wanted uint64) error {
	table, err := Open(path)
	if err != nil {
		return err
	}
	follower, err := table.Follow(0)
	if err != nil {
		return err
	}
	for seen := uint64(0); seen < wanted; {
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

func run(words []string) error {
	if len(words) != 3 {
		return errors.New("capi goroutines FILE COUNT, or capi follow TABLE ROWS")
	}
	number, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	if words[0] == "follow" {
		return follow(words[1], uint64(number))
	}
	return goroutines(words[1], number)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
