package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report writes what was measured, and counts targets.
type report struct {
	out             io.Writer
	reached, missed int
	failed          error // the first failed write
}

func newReport(out io.Writer) *report { return &report{out: out} }

func (r *report) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format, args...); err != nil && r.failed == nil {
		r.failed = err
	}
}

func (r *report) title(text string) { r.printf("\n== %s\n", text) }

// table writes rows of cells in columns; the first row is the heading.
func (r *report) table(rows ...[]string) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		// Names go left: the first column is padded by hand.
		fmt.Fprintf(w, "%-26s\t%s\t\n", row[0], strings.Join(row[1:], "\t"))
	}
	_ = w.Flush() // to memory
	r.printf("%s", text.String())
}

// atMost compares a value with a target that is an upper limit.
func (r *report) atMost(what string, value, limit float64, unit string) {
	r.target(what, value, limit, unit, "at most", "above", value <= limit)
}

// atLeast compares a value with one that is a lower limit.
func (r *report) atLeast(what string, value, limit float64, unit string) {
	r.target(what, value, limit, unit, "at least", "below", value >= limit)
}

func (r *report) target(what string, value, limit float64, unit, sense, missed string, isReached bool) {
	verdict := "ok"
	if isReached {
		r.reached++
	} else {
		verdict = missed
		r.missed++
	}
	r.printf("%-6s %s: %s%s (target: %s %s%s)\n", verdict, what, number(value), unit, sense, strconv.FormatFloat(limit, 'g', -1, 64), unit)
}

// number is v with three digits that count, whole from 100 on.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%d", int64(v))
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func (r *report) summary() {
	r.printf("\n%d of %d targets reached\n", r.reached, r.reached+r.missed)
}

// conditions writes what the numbers depend on.
func (b *bench) conditions(ctx context.Context) error {
	info, err := b.info(ctx, "server")
	if err != nil {
		return err
	}
	host := "at " + b.options.Addr
	if b.own {
		host = "of its own on loopback, nothing on disk"
	}
	software := "Redis"
	version := info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		software, version = "Valkey", v
	}
	b.printf("Ringfence's lock on Redis, %s\n", time.Now().UTC().Format("2006-01-02 15:04 MST"))
	b.printf("machine    %d cores, %s/%s, %s%s\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), load())
	b.printf("server     %s %s %s\n", software, version, host)
	b.printf("libraries  %s\n", strings.Join(versions(), ", "))
	b.printf("clients    go-redis with its default settings and ContextTimeoutEnabled, %d connections at most each; RESP%d\n",
		b.admin.Options().PoolSize, b.admin.Options().Protocol)
	b.printf("duration   %v for each library in each comparison; twice that where clients wait\n", b.series)
	return nil
}

// load is how busy the machine was in the last minute, where the system tells: above 0.5 or so, the
// numbers are somebody else's too.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	average, _, _ := strings.Cut(string(text), " ")
	return ", load " + average
}

// versions are those of the libraries compared.
func versions() []string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var found []string
	for _, m := range build.Deps {
		for _, path := range []string{"github.com/redis/go-redis/v9", "github.com/bsm/redislock", "github.com/go-redsync/redsync/v4", "github.com/redis/rueidis"} {
			if m.Path == path {
				found = append(found, strings.TrimSuffix(strings.TrimPrefix(path, "github.com/"), "/v9")+" "+m.Version)
			}
		}
	}
	return found
}

// short is d with three digits that count.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return number(float64(d)/float64(time.Microsecond)) + " us"
	case d < time.Second:
		return number(milliseconds(d)) + " ms"
	default:
		return number(d.Seconds()) + " s"
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
