package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
)

// input is what was read.
type input struct {
	bids []bid
	bad  []badLine
}

// input reads the bids that the options name, unless ctx ends first: nobody may be typing.
func (o options) input(ctx context.Context, stdin io.Reader, prefix string) (input, error) {
	var in input
	done := make(chan error, 1)
	go func() {
		from, err := o.open(stdin)
		if err == nil {
			in.bids, in.bad, err = readBids(from, prefix)
			_ = from.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return input{}, fmt.Errorf("read %s: %w", o.source(), err)
		}
		return in, nil
	case <-ctx.Done():
		return input{}, context.Cause(ctx)
	}
}

func (o options) open(stdin io.Reader) (io.ReadCloser, error) {
	switch o.bids {
	case "":
		return io.NopCloser(bytes.NewReader(shippedBids)), nil
	case "-":
		return io.NopCloser(stdin), nil
	default:
		return os.Open(o.bids)
	}
}

// source names where the bids come from.
func (o options) source() string {
	switch o.bids {
	case "":
		return "the shipped file"
	case "-":
		return "standard input"
	default:
		return o.bids
	}
}

// tellBad prints the lines that are no bids, the first of them one by one.
func tellBad(w io.Writer, bad []badLine) {
	const most = 20
	for i, b := range bad {
		if i == most {
			fmt.Fprintf(w, "and %d more\n", len(bad)-most)
			return
		}
		fmt.Fprintf(w, "line %d skipped: %v\n", b.Line, b.Why)
	}
}
