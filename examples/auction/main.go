// Command auction shows what a fencing token is for. Several processes take bids on auctions, one of
// them is stopped in the worst moment until its lease has run out, and its late write is refused:
//
//	go run ./examples/auction
//	go run ./examples/auction -guard=off     # the same without the guard: a bid is lost
//	go run ./examples/auction -redis redis://localhost:6379 -postgres postgres://me@localhost/test
//	go run ./examples/auction -h
//
// What to copy is in processor.go: acquire with a seal, read, decide, write with the lease's claim. The
// tables' guards are in rows_sqlite.go and rows_postgres.go. The rest stages the pauses and checks what
// comes out: sale.go deals the bids out, staged.go stops and resumes, check.go judges.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

// The exit statuses, see the help.
const (
	allRight    = 0
	bidLost     = 1
	wrongFlags  = 2
	someSkipped = 3
	notRun      = 4
	interrupted = 130
)

// processorArg makes this program a processor: the parent starts itself with it.
const processorArg = "processor"

var errInterrupted = errors.New("interrupted")

func main() {
	logging.Disable() // go-redis: what it logs comes as an error, too
	if len(os.Args) > 1 && os.Args[1] == processorArg {
		os.Exit(runProcessor(os.Stdin, os.Stdout))
	}
	// A closed pipe, as of "| head", is then an error of a write, after which there is time to tidy up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		<-signals
		signal.Stop(signals) // a second one ends the program at once
		cancel(errInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the parent: it returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, errHelp):
		return allRight
	case err != nil:
		fmt.Fprintf(stderr, "auction: %v\nauction -h shows all flags\n", err)
		return wrongFlags
	}
	status, err := hold(ctx, o, stdin, stdout, stderr)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errInterrupted):
		fmt.Fprintf(stderr, "auction: %v\n", err)
		return interrupted
	case err != nil:
		fmt.Fprintf(stderr, "auction: %v\n", err)
		return notRun
	}
	return status
}
