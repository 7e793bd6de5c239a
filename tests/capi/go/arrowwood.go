// Package main uses the C library from goroutines, which change threads between calls.
//
//	capi goroutines FILE COUNT
//	capi follow TABLE ROWS
package main

/*
#cgo pkg-config: arrowwood
#include <arrowwood.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Error is an error of the library: its code and its message.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return e.Message }

// toError converts the result of a call to an error.
func toError(code C.int32_t, e *C.arrowwood_error) error {
	if code == 0 {
		return nil
	}
	defer C.arrowwood_error_clear(e)
	if code != e.code {
		return fmt.Errorf("the call returned %d, its error has %d", code, e.code)
	}
	return &Error{int(code), C.GoString(e.message)}
}

// Dataset frees its handle when it is garbage collected.
type Dataset struct{ handle *C.arrowwood_dataset }

func newDataset(handle *C.arrowwood_dataset) *Dataset {
	dataset := &Dataset{handle}
	runtime.SetFinalizer(dataset, func(d *Dataset) { C.arrowwood_dataset_free(d.handle) })
	return dataset
}

// Open opens the file or table at path.
func Open(path string) (*Dataset, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var handle *C.arrowwood_dataset
	var e C.arrowwood_error
	if err := toError(C.arrowwood_open(name, nil, &handle, &e), &e); err != nil {
		return nil, err
	}
	return newDataset(handle), nil
}

// Rows returns the number of rows.
func (d *Dataset) Rows() (uint64, error) {
	defer runtime.KeepAlive(d)
	var rows C.uint64_t
	var e C.arrowwood_error
	err := toError(C.arrowwood_dataset_num_rows(d.handle, &rows, &e), &e)
	return uint64(rows), err
}

// Sum returns the sum of a column of numbers.
func (d *Dataset) Sum(column int) (float64, error) {
	defer runtime.KeepAlive(d)
	var value C.arrowwood_value
	var number C.double
	var e C.arrowwood_error
	if err := toError(C.arrowwood_dataset_reduce(d.handle, C.size_t(column), C.ARROWWOOD_SUM, &value, &e), &e); err != nil {
		return 0, err
	}
	err := toError(C.arrowwood_value_double(&value, &number, &e), &e)
	return float64(number), err
}

// Int returns the integer of a cell.
func (d *Dataset) Int(row uint64, column int) (int64, error) {
	defer runtime.KeepAlive(d)
	path := C.uint64_t(column)
	var value C.arrowwood_value
	var e C.arrowwood_error
	err := toError(C.arrowwood_dataset_value(d.handle, C.uint64_t(row), &path, 1, &value, &e), &e)
	if err == nil && value.kind != C.ARROWWOOD_KIND_INT64 {
		err = errors.New("not an integer")
	}
	// cgo represents a C union as an array of bytes.
	return *(*int64)(unsafe.Pointer(&value.as)), err
}

// Ints calls use with the values of a column of int64, chunk by chunk and without copying them.
func (d *Dataset) Ints(column int, use func(values []int64)) error {
	defer runtime.KeepAlive(d)
	var chunks *C.arrowwood_chunk
	var owner *C.arrowwood_chunks
	var count C.size_t
	var e C.arrowwood_error
	code := C.arrowwood_dataset_chunks(d.handle, C.size_t(column), C.ARROWWOOD_ALIGNED, &chunks, &count, &owner, &e)
	if err := toError(code, &e); err != nil {
		return err
	}
	defer C.arrowwood_chunks_free(owner)
	for _, chunk := range unsafe.Slice(chunks, int(count)) {
		use(unsafe.Slice((*int64)(chunk.values.data), int(chunk.rows)))
	}
	return nil
}

// Follower returns new rows of a table.
type Follower struct{ handle *C.arrowwood_follower }

// Follow returns a follower of the table that begins with row start.
func (d *Dataset) Follow(start int64) (*Follower, error) {
	defer runtime.KeepAlive(d)
	var follower Follower
	var e C.arrowwood_error
	err := toError(C.arrowwood_follow(d.handle, C.int64_t(start), &follower.handle, &e), &e)
	return &follower, err
}

// Next waits for new rows, and returns nil if there were none in time.
func (f *Follower) Next(milliseconds int64) (*Dataset, error) {
	var handle *C.arrowwood_dataset
	var e C.arrowwood_error
	err := toError(C.arrowwood_follower_next(f.handle, C.int64_t(milliseconds), &handle, &e), &e)
	if err != nil || handle == nil {
		return nil, err
	}
	return newDataset(handle), nil
}
