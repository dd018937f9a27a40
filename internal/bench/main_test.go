package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
)

func TestProgramStartsItsServerAndReports(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a real Redis server: run without -short")
	}
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"-quick", "-duration", "100ms", "-only", "handover"}, &stdout, &stderr)
	require.Equal(t, done, status, stderr.String())
	assert.Empty(t, stderr.String())
	for _, text := range []string{
		"server     ", "cores", "go1.", "duration   100ms", "== handover: ", "ringfence", "redislock, every 10 ms", "redsync",
		" hand-over p50: ", "(target: at most 4 round trips)", " of 1 targets reached",
	} {
		assert.Contains(t, stdout.String(), text)
	}
	assert.NotContains(t, stdout.String(), "== turns")
}

func TestServerThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	s, err := openServer(t.Context(), server.URL())
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.close()) }()
	require.NoError(t, s.admin.Set(t.Context(), "somebody's", "data", 0).Err())

	var stderr bytes.Buffer
	assert.Equal(t, notRun, run(t.Context(), []string{"-only", "handover", "-duration", "100ms", "-redis", server.URL()}, io.Discard, &stderr))
	assert.Contains(t, stderr.String(), "has 1 keys: want an empty one")
	assert.EqualValues(t, 1, s.admin.Exists(t.Context(), "somebody's").Val())

	stderr.Reset()
	server.Stop()
	assert.Equal(t, notRun, run(t.Context(), []string{"-quick", "-redis", server.URL()}, io.Discard, &stderr))
	assert.Contains(t, stderr.String(), "reach Redis at "+server.Addr())
}

// cancelAfter cancels a moment after the text is written: in the midst of the part.
type cancelAfter struct {
	text   string
	cancel context.CancelFunc
}

func (c cancelAfter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.text)) {
		time.AfterFunc(300*time.Millisecond, c.cancel)
	}
	return len(p), nil
}

func TestInterruptEndsEveryPart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a real Redis server: run without -short")
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stderr bytes.Buffer
			start := time.Now()
			status := run(ctx, []string{"-only", p.name, "-duration", "1m"}, cancelAfter{"== " + p.name, cancel}, &stderr)
			assert.Equal(t, interrupted, status)
			assert.Equal(t, "bench: interrupted\n", stderr.String())
			assert.Less(t, time.Since(start), 15*time.Second, "not at once, but soon")
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	live := t.Context()
	ended, cancel := context.WithCancel(live)
	cancel()
	failure := errors.New("failed")
	assert.Equal(t, done, statusOf(live, nil, false, 3))
	assert.Equal(t, done, statusOf(live, nil, true, 0))
	assert.Equal(t, targetMissed, statusOf(live, nil, true, 1))
	assert.Equal(t, notRun, statusOf(live, failure, true, 1))
	assert.Equal(t, interrupted, statusOf(ended, failure, true, 1))
	assert.Equal(t, done, statusOf(ended, nil, false, 0), "it was too late to interrupt")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	assert.Equal(t, done, run(t.Context(), []string{"-h"}, &help, io.Discard))
	assert.Contains(t, help.String(), "-only PART")
	assert.Contains(t, help.String(), "contended")

	for _, args := range [][]string{
		{"-only", "nothing"}, {"-duration", "soon"}, {"-duration", "1ms"}, {"-duration", "-5s"}, {"-fast"}, {"turns"},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, wrongFlags, run(t.Context(), args, io.Discard, &stderr), "%q", args)
		assert.Contains(t, stderr.String(), "bench -h shows all flags", "%q", args)
	}

	o, err := parseOptions([]string{"-duration", "2s", "-quick", "-check"}, io.Discard)
	require.NoError(t, err)
	assert.True(t, o.check)
	assert.Equal(t, quick.names, o.names)
	assert.Equal(t, "2s", o.series.String())
	o, err = parseOptions(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, options{scale: full}, o)
}
