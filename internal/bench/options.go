package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	scale
	only  string // part; "": all
	redis string // URL; "": start one
	check bool
}

// scale is how much is measured.
type scale struct {
	series      time.Duration // of one library in one comparison
	rounds      int           // that a series of turns is cut into
	leases      int
	leaseTTL    time.Duration
	leaseWindow time.Duration // that the renewals are watched for
	names       int
	nameTTL     time.Duration
	idle        time.Duration // life of an unused counter
}

var (
	full = scale{
		series: 5 * time.Second, rounds: 50,
		leases: 10_000, leaseTTL: 30 * time.Second, leaseWindow: 20 * time.Second,
		names: 1_000_000, nameTTL: 10 * time.Second, idle: 2 * time.Second,
	}
	// quick renews as many leases a second as full does.
	quick = scale{
		series: time.Second, rounds: 20,
		leases: 1_000, leaseTTL: 3 * time.Second, leaseWindow: 4 * time.Second,
		names: 20_000, nameTTL: 3 * time.Second, idle: time.Second,
	}
)

const help = `Usage: bench [flags]

Measures Ringfence's lock on Redis beside the bare commands and beside other libraries, and
compares the ratios with the targets.

Flags:
  -duration D   how long to measure each library in each comparison; twice that where clients
                wait. Default %v, with -quick %v
  -quick        measure briefly: %d names in place of %d, %d leases in place of %d
  -only PART    one part:
%s  -redis URL    measure on this server (redis://[user:password@]host:port/db), which nobody else
                may use meanwhile. The database must be empty and is emptied again. Default:
                start a server on a free port
  -check        exit with 1 if a target is missed
  -h            show this

Exit status:
  0    measured
  1    with -check: a target is missed
  2    wrong flags
  4    could not be measured: no server, an error of a library, two holders at once
  130  interrupted
("go run" turns all of them but 0 into 1, and prints the true one.)
`

// errHelp: the user has asked for help and got it.
var errHelp = flag.ErrHelp

const minSeries = 100 * time.Millisecond

// parseOptions reads the command line. Help goes to out.
func parseOptions(args []string, out io.Writer) (options, error) {
	o := options{scale: full}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors are the caller's to print
	var duration time.Duration
	set.Func("duration", "", func(text string) (err error) {
		if duration, err = time.ParseDuration(text); err != nil {
			return errors.New("want a duration, as 500ms or 5s")
		}
		if duration < minSeries {
			return fmt.Errorf("want %v or more", minSeries)
		}
		return nil
	})
	isQuick := set.Bool("quick", false, "")
	set.StringVar(&o.only, "only", "", "")
	set.StringVar(&o.redis, "redis", "", "")
	set.BoolVar(&o.check, "check", false, "")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(out, help, full.series, quick.series, quick.names, full.names, quick.leases, full.leases, partsHelp())
			return o, errHelp
		}
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: there are only flags", set.Arg(0))
	}
	if *isQuick {
		o.scale = quick
	}
	if duration > 0 {
		o.series = duration
	}
	if o.only != "" && !slices.ContainsFunc(parts, func(p part) bool { return p.name == o.only }) {
		return o, fmt.Errorf("-only=%s: there is no such part; the parts are\n%s", o.only, strings.TrimRight(partsHelp(), "\n"))
	}
	return o, nil
}

func partsHelp() string {
	var text strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&text, "                  %-10s %s\n", p.name, p.about)
	}
	return text.String()
}
