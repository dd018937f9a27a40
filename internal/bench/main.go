// Command bench measures Ringfence's lock on Redis, beside the bare commands and beside other Go
// libraries, in one run on one machine:
//
//	go run . -h
//	go run .                  # all parts, about five minutes
//	go run . -quick           # all parts, less than a minute, rougher numbers
//	go run . -only handover
//
// It starts a redis-server of its own, prints the conditions, then for each part a table and the
// targets, each with "ok", "above" or "below". It runs on Linux and macOS.
//
// A part is a file: turns.go, contended.go, handover.go, leases.go, names.go. The libraries are in
// library.go (Ringfence and the bare commands) and peers.go, the only place in this repository that
// imports them; hence a module of its own.
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
	done         = 0
	targetMissed = 1
	wrongFlags   = 2
	notRun       = 4
	interrupted  = 130
)

func main() {
	logging.Disable() // go-redis: what it logs comes as an error, too
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (status int) {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, errHelp):
		return done
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v\nbench -h shows all flags\n", err)
		return wrongFlags
	}
	r := newReport(stdout)
	err = runParts(ctx, o, r)
	status = statusOf(ctx, err, o.check, r.missed)
	switch status {
	case interrupted:
		fmt.Fprintln(stderr, "bench: interrupted")
	case notRun:
		fmt.Fprintf(stderr, "bench: %v\n", err)
	}
	return status
}

func statusOf(ctx context.Context, err error, check bool, missed int) int {
	switch {
	case err != nil && ctx.Err() != nil:
		return interrupted
	case err != nil:
		return notRun
	case check && missed > 0:
		return targetMissed
	}
	return done
}

// part is one comparison.
type part struct {
	name, about string
	run         func(context.Context, *bench) error
}

var parts = []part{
	{"turns", "acquire + release of a free resource", reportTurns},
	{"contended", "many clients want one resource", reportContended},
	{"handover", "from one holder's release to the next one running", reportHandover},
	{"leases", "many live leases on one Locker", reportLeases},
	{"names", "what names used once leave behind", reportNames},
}

// bench is what a part works with.
type bench struct {
	scale
	*server
	*report
}

func runParts(ctx context.Context, o options, r *report) (err error) {
	s, err := startServer(ctx, o.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b := &bench{o.scale, s, r}
	if err := b.conditions(ctx); err != nil {
		return err
	}
	for _, p := range parts {
		if o.only != "" && o.only != p.name {
			continue
		}
		b.title(p.name + ": " + p.about)
		if err := errors.Join(b.empty(ctx), p.run(ctx, b), b.failed); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	b.summary()
	return errors.Join(b.empty(ctx), b.failed)
}
