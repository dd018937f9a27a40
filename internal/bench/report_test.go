package main

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTargets(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := newReport(&out)
	r.atMost("time", 1.15, 1.15, "x")
	r.atMost("time", 1.16, 1.15, "x")
	r.atLeast("evenness", 0.95, 0.95, "")
	r.atLeast("evenness", 0.94, 0.95, "")
	r.summary()
	assert.Equal(t, `ok     time: 1.15x (target: at most 1.15x)
above  time: 1.16x (target: at most 1.15x)
ok     evenness: 0.95 (target: at least 0.95)
below  evenness: 0.94 (target: at least 0.95)

2 of 4 targets reached
`, out.String())
	assert.Equal(t, 2, r.missed)
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	newReport(&out).table([]string{"", "p50", "longest"}, []string{"ringfence", "1.20 ms", "3 s"})
	assert.Equal(t, ""+
		"                                  p50  longest\n"+
		"  ringfence                   1.20 ms      3 s\n", out.String())
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 3: "3", 0.666: "0.67", 15.64: "15.6", 123.4: "123", 1e6: "1000000", -2.345: "-2.35"} {
		assert.Equal(t, want, number(v))
	}
	for d, want := range map[time.Duration]string{
		412 * time.Microsecond: "412 us", 85 * time.Millisecond: "85 ms", 2340 * time.Millisecond: "2.34 s", 0: "0 us",
	} {
		assert.Equal(t, want, short(d))
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestFailedWriteIsKept(t *testing.T) {
	t.Parallel()
	r := newReport(fullDisk{})
	r.title("x")
	assert.ErrorIs(t, r.failed, errFull)
}

func TestCommandCounts(t *testing.T) {
	t.Parallel()
	counts, err := parseCommandStats(parseInfo("# Commandstats\r\n" +
		"cmdstat_evalsha:calls=7,usec=70,usec_per_call=10.00,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_client|setinfo:calls=2,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_info:calls=100,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n"))
	require.NoError(t, err)
	assert.Equal(t, commandCounts{"evalsha": 7, "client|setinfo": 2}, counts)
	assert.EqualValues(t, 9, counts.total())
	_, err = parseCommandStats(map[string]string{"cmdstat_get": "calls=many"})
	assert.ErrorContains(t, err, "cmdstat_get:calls=many")
}
