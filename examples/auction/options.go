package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// options are what the command line says.
type options struct {
	bids       string // file, "-", or "" for the shipped ones
	processors int
	pauses     int
	seed       uint64
	ttl        time.Duration
	guard      bool
	redis      string
	postgres   string
}

func (o options) realServers() bool { return o.redis != "" }

const help = `Usage: auction [flags]

Bids on auctions are processed by several processes at once. For each bid a process takes a lease
on the auction, sealed by the guard, reads the highest bid so far, and writes its own if that is
higher. Now and then a process is stopped (SIGSTOP) between its read and its write, until its lease
has run out and another one has written a higher bid. Then it goes on, and its late write is
refused. At the end every auction must have been won by its highest bid.

With -guard=off the late write is not refused, and the higher bid is lost.

Nothing needs to be set up: by default the leases are in a Redis inside this program, and the
auctions in a temporary SQLite file.

Flags:
  -bids FILE         read bids from FILE, "-" is standard input: a JSON object on each line,
                     {"auction":"7","bidder":"ann","amount":120}
                     Default: 500 bids on 5 auctions that come with the program
  -processors N      start N processes, 1 to %d; pauses need 2. Default %d
  -pauses N          stop a process N times. Default %d
  -seed N            decides by chance which bids the pauses hit. Default %d
  -ttl D             the leases' time to live, %v to %v. Default %v
  -guard on|off      refuse late writes, or not. Default on
  -redis URL         keep the leases in this Redis (redis://[user:password@]host:port/db), and
  -postgres URL      the auctions in this PostgreSQL (postgres://user:password@host:port/database),
                     in a schema of their own, ringfence_auction_<run>, dropped at the end.
                     The user must be allowed to create one. Both or neither
  -h                 show this

Exit status:
  0    every auction was won by its highest bid
  1    some auction was not: a bid is lost
  2    wrong flags
  3    every auction was won by its highest bid, but some lines were no bids and were skipped
  4    the run could not be started or ended: a file, a server, a process
  130  interrupted
("go run" turns all of them but 0 into 1, and prints the true one.)
`

const (
	minTTL, maxTTL = 100 * time.Millisecond, time.Minute
	maxProcessors  = 32
	maxPauses      = 1000
)

var defaults = options{processors: 4, pauses: 2, seed: 1, ttl: time.Second, guard: true}

// errHelp: the user has asked for help and got it.
var errHelp = flag.ErrHelp

// parseOptions reads the command line. Help goes to out.
func parseOptions(args []string, out io.Writer) (options, error) {
	o := defaults
	set := flag.NewFlagSet("auction", flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors are the caller's to print
	set.StringVar(&o.bids, "bids", o.bids, "")
	set.IntVar(&o.processors, "processors", o.processors, "")
	set.IntVar(&o.pauses, "pauses", o.pauses, "")
	set.Uint64Var(&o.seed, "seed", o.seed, "")
	set.Func("ttl", "", func(text string) (err error) {
		if o.ttl, err = time.ParseDuration(text); err != nil {
			return errors.New("want a duration, as 500ms or 2s")
		}
		return nil
	})
	guard := set.String("guard", "on", "")
	set.StringVar(&o.redis, "redis", o.redis, "")
	set.StringVar(&o.postgres, "postgres", o.postgres, "")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(out, help, maxProcessors, o.processors, o.pauses, o.seed, minTTL, maxTTL, o.ttl)
			return o, errHelp
		}
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: there are only flags", set.Arg(0))
	}
	o.guard = *guard == "on"
	if !o.guard && *guard != "off" {
		return o, fmt.Errorf("-guard=%s: want on or off", *guard)
	}
	return o, o.validate(given(set))
}

func given(set *flag.FlagSet) map[string]bool {
	names := map[string]bool{}
	set.Visit(func(f *flag.Flag) { names[f.Name] = true })
	return names
}

func (o options) validate(given map[string]bool) error {
	for _, name := range []string{"bids", "redis", "postgres"} {
		if value := map[string]string{"bids": o.bids, "redis": o.redis, "postgres": o.postgres}[name]; given[name] && value == "" {
			return fmt.Errorf("-%s is empty", name)
		}
	}
	switch {
	case o.processors < 1 || o.processors > maxProcessors:
		return fmt.Errorf("-processors=%d: want 1 to %d", o.processors, maxProcessors)
	case o.pauses < 0 || o.pauses > maxPauses:
		return fmt.Errorf("-pauses=%d: want 0 to %d", o.pauses, maxPauses)
	case o.pauses > 0 && o.processors < 2:
		return fmt.Errorf("-processors=%d: want 2 or more, so that one works while another is stopped (or -pauses=0)", o.processors)
	case o.ttl < minTTL || o.ttl > maxTTL || o.ttl%time.Millisecond != 0:
		return fmt.Errorf("-ttl=%v: want %v to %v, in whole milliseconds", o.ttl, minTTL, maxTTL)
	case (o.redis == "") != (o.postgres == ""):
		return errors.New("-redis and -postgres go together: give both, or neither for the embedded ones")
	}
	return nil
}
