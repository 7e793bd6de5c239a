package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// A client of `arrowwood serve` that does the steps of tests/interop/clients.py, and prints a line of JSON for each.

var ticks = arrow.NewSchema([]arrow.Field{
	{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "price", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
}, nil)

type answer struct {
	Rows      int64 `json:"rows"`
	Durable   int64 `json:"durable"`
	Duplicate bool  `json:"duplicate"`
}

type flightClient struct {
	ctx    context.Context
	client flight.Client
}

func command(text string) *flight.FlightDescriptor {
	return &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(text)}
}

func batch(start int64) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, ticks)
	defer builder.Release()
	builder.Field(0).(*array.Int64Builder).AppendValues([]int64{start, start + 1}, nil)
	builder.Field(1).(*array.Float64Builder).AppendValues([]float64{0.5, 1.5}, nil)
	return builder.NewRecordBatch()
}

func (c flightClient) readNumbers(ticket *flight.Ticket, maxCount int) ([]int64, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	stream, err := c.client.DoGet(ctx, ticket)
	if err != nil {
		return nil, err
	}
	reader, err := flight.NewRecordReader(stream)
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	numbers := []int64{}
	for len(numbers) < maxCount && reader.Next() {
		numbers = append(numbers, reader.RecordBatch().Column(0).(*array.Int64).Int64Values()...)
	}
	if err := reader.Err(); err != nil && len(numbers) < maxCount {
		return nil, err
	}
	return numbers[:min(maxCount, len(numbers))], nil
}

func (c flightClient) list() (any, error) {
	stream, err := c.client.ListFlights(c.ctx, &flight.Criteria{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for {
		info, err := stream.Recv()
		if err == io.EOF {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		names = append(names, info.FlightDescriptor.Path...)
	}
}

func (c flightClient) schema() (any, error) {
	result, err := c.client.GetSchema(c.ctx, command("ticks"))
	if err != nil {
		return nil, err
	}
	schema, err := flight.DeserializeSchema(result.Schema, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, field := range schema.Fields() {
		names = append(names, field.Name)
	}
	return names, nil
}

func (c flightClient) readAllEndpoints() (any, error) {
	info, err := c.client.GetFlightInfo(c.ctx, command("ticks?to=10"))
	if err != nil {
		return nil, err
	}
	all := []int64{}
	for _, endpoint := range info.Endpoint {
		part, err := c.readNumbers(endpoint.Ticket, 1<<30)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

func (c flightClient) appendBatch() (any, error) {
	stream, err := c.client.DoPut(c.ctx)
	if err != nil {
		return nil, err
	}
	writer := flight.NewRecordWriter(stream, ipc.WithSchema(ticks))
	writer.SetFlightDescriptor(command("ticks?producer=go&sequence=0"))
	if err := writer.Write(batch(100)); err != nil {
		return nil, err
	}
	result, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var acknowledged answer
	err = json.Unmarshal(result.AppMetadata, &acknowledged)
	return []any{acknowledged.Rows, acknowledged.Durable >= 12, acknowledged.Duplicate}, err
}

func (c flightClient) exchange() (any, error) {
	stream, err := c.client.DoExchange(c.ctx)
	if err != nil {
		return nil, err
	}
	writer := flight.NewRecordWriter(stream, ipc.WithSchema(ticks))
	writer.SetFlightDescriptor(command("ticks?from=0&producer=go&sequence=1"))
	if err := writer.Write(batch(200)); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var acknowledged answer
	batches := 0
	for {
		data, err := stream.Recv()
		if err == io.EOF {
			return []any{acknowledged.Rows, acknowledged.Duplicate, batches > 1}, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data.AppMetadata) > 0 {
			if err := json.Unmarshal(data.AppMetadata, &acknowledged); err != nil {
				return nil, err
			}
		} else {
			batches++
		}
	}
}

func (c flightClient) refusal() (any, error) {
	_, err := c.readNumbers(&flight.Ticket{Ticket: []byte("nothing")}, 1)
	if status.Code(err) == codes.NotFound {
		return "not found", nil
	}
	return nil, fmt.Errorf("expected NOT_FOUND, got %w", err)
}

func runFlightSteps(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := flight.NewClientWithMiddleware(address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer client.Close()
	c := flightClient{ctx, client}
	rows := func(text string, maxCount int) func() (any, error) {
		return func() (any, error) { return c.readNumbers(&flight.Ticket{Ticket: []byte(text)}, maxCount) }
	}
	steps := []struct {
		name string
		do   func() (any, error)
	}{
		{"list", c.list}, {"schema", c.schema}, {"rows", rows("ticks?to=10", 1<<30)},
		{"condition", rows("ticks?columns=n&to=10&where=n > 6", 1<<30)}, {"parts", c.readAllEndpoints},
		{"append", c.appendBatch}, {"send again", c.appendBatch}, {"follow", rows("ticks?follow=true&from=8&columns=n", 2)},
		{"exchange", c.exchange}, {"refusal", c.refusal},
	}
	for _, step := range steps {
		line := map[string]any{"step": step.name}
		if result, err := step.do(); err != nil {
			line["error"] = err.Error()
		} else {
			line["found"] = result
		}
		if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
			return err
		}
	}
	return nil
}
